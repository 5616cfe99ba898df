"""`gpunion reclaim`: the owner wants the machine back; guests save themselves within the notice."""

from __future__ import annotations

import argparse

from gpunion.cli.agent_socket import STATUS_JSON, add_gpus, add_state_dir, ask, say, state_dir
from gpunion.cli.context import Context
from gpunion.cli.exits import USAGE, Trouble
from gpunion.cli.quantities import duration_s

JSON = STATUS_JSON
EXAMPLES = (
    "gpunion reclaim --notice 60s",
    "gpunion reclaim --now",
    "gpunion reclaim --gpu 0,1",
    "gpunion reclaim --when-safe",
)


def configure(parser: argparse.ArgumentParser) -> None:
    when = parser.add_mutually_exclusive_group()
    when.add_argument(
        "--notice",
        type=duration_s,
        metavar="TIME",
        help="how long guests may take to save themselves (your terms)",
    )
    when.add_argument(
        "--when-safe",
        action="store_true",
        help="each guest goes as soon as what it did is saved, so that no step is lost",
    )
    when.add_argument("--now", action="store_true", help="no notice at all, the same as --notice 0s")
    parser.add_argument(
        "--limit", type=duration_s, metavar="TIME", help="with --when-safe: at most so long (your terms)"
    )
    add_gpus(parser)
    add_state_dir(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    from gpunion.agent.owner import client as owner_client

    notice_s = 0.0 if arguments.now else arguments.notice
    place = state_dir(arguments, context)
    if arguments.limit is not None and not arguments.when_safe:
        raise Trouble("--limit goes with --when-safe", next_step="gpunion reclaim --help", code=USAGE)
    if arguments.when_safe:
        if arguments.gpu:
            raise Trouble("--when-safe is for the whole machine", next_step="leave out --gpu", code=USAGE)
        return say(
            context,
            ask(lambda: owner_client.reclaim_when_safe(place, arguments.limit), place, context.screen),
        )
    return say(
        context, ask(lambda: owner_client.reclaim(place, notice_s, arguments.gpu), place, context.screen)
    )
