"""`gpunion demo`: the flags of it. The story itself is `gpunion.cli.demo`."""

from __future__ import annotations

import argparse

from gpunion.cli.context import Context
from gpunion.cli.extras import missing_extra

JSON = """`{moves, steps_lost_on_notice, weights_equal, downtime_s, ...}`: what the demonstration measured.
With `--windows`: `{jobs, slowest_first_step_s, calendar_s, held_past_calendar_s, weights_equal, elapsed_s}`;
`jobs` has for each name `{first_step_s, windows, worked_s, overhead_s, weights_equal}`."""
EXAMPLES = (
    "gpunion demo",
    "gpunion demo --json",
    "gpunion demo --windows",
    "gpunion demo --runtime podman",
    "gpunion demo --keep",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep", action="store_true", help="leave the campus running at the end, and say where"
    )
    parser.add_argument(
        "--windows",
        action="store_true",
        help="another play: more jobs than GPUs, in windows, beside a gang and an owner's calendar",
    )
    parser.add_argument(
        "--runtime",
        choices=("sandbox", "docker", "podman"),
        default="sandbox",
        help="how guests are run: in bubblewrap's sandbox or in an engine's containers",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    del context
    try:
        from gpunion.cli.demo import main
    except ImportError as error:
        raise missing_extra(error, "demo") from error
    return int(main(arguments))
