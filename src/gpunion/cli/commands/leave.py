"""`gpunion leave`: guests go within the notice, then nothing of us is left on the machine."""

from __future__ import annotations

import argparse

from gpunion.cli.context import Context
from gpunion.cli.owner import STATUS_JSON, add_state_dir, ask, say, state_dir
from gpunion.cli.quantities import duration_s

JSON = STATUS_JSON
EXAMPLES = ("gpunion leave", "gpunion leave --notice 10m")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--notice",
        type=duration_s,
        metavar="TIME",
        help="how long guests may take to save themselves (your terms)",
    )
    add_state_dir(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    from gpunion.agent import owner_client

    return say(context, ask(lambda: owner_client.leave(state_dir(arguments, context), arguments.notice)))
