"""`gpunion pause`: take no new guests; those here may stay."""

from __future__ import annotations

import argparse

from gpunion.cli.agent_socket import STATUS_JSON, add_gpus, add_state_dir, ask, say, state_dir
from gpunion.cli.context import Context

JSON = STATUS_JSON
EXAMPLES = ("gpunion pause", "gpunion pause --gpu 0")


def configure(parser: argparse.ArgumentParser) -> None:
    add_gpus(parser)
    add_state_dir(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    from gpunion.agent.owner import client as owner_client

    place = state_dir(arguments, context)
    return say(context, ask(lambda: owner_client.pause(place, arguments.gpu), place, context.screen))
