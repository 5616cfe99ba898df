"""`gpunion kill`, as the other commands are. `__main__` takes a shorter way to the same code."""

from __future__ import annotations

import argparse

from gpunion.cli.agent_socket import add_state_dir, state_dir
from gpunion.cli.context import Context

JSON = """`{ended, survivors, took_s, trouble, complete}`: run ids, process ids, seconds, a text, and whether
nothing of a guest lives and none will start."""
EXAMPLES = ("gpunion kill",)


def configure(parser: argparse.ArgumentParser) -> None:
    add_state_dir(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    from gpunion.owner_kill import main

    words = ["--state-dir", str(state_dir(arguments, context))]
    return main([*words, "--json"] if arguments.json else words)
