"""`gpunion resume`: lend the machine again after a pause, a reclaim or a kill."""

from __future__ import annotations

import argparse

from gpunion.cli.context import Context
from gpunion.cli.owner import STATUS_JSON, add_state_dir, ask, say, state_dir

JSON = STATUS_JSON
EXAMPLES = ("gpunion resume",)


def configure(parser: argparse.ArgumentParser) -> None:
    add_state_dir(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    from gpunion.agent import owner_client

    return say(context, ask(lambda: owner_client.resume(state_dir(arguments, context))))
