"""What the commands that learn from a trace have in common: the file, its zone, and its mistakes in words."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

from gpunion.cli.context import Context
from gpunion.cli.exits import NOT_FOUND, USAGE, Trouble
from gpunion.cli.extras import missing_extra
from gpunion.cli.quantities import duration_s

if TYPE_CHECKING:
    from gpunion.sim.traces.lending import Lending

HOURS_MOST = 14.0  # the widest zones there are


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="CSV", help="a trace; its columns say which format it is in")
    parser.add_argument(
        "--utc-offset",
        type=_hours,
        metavar="H",
        help="the owners' zone in hours east of UTC (what the file says, else its times are taken as local)",
    )
    parser.add_argument(
        "--idle",
        type=duration_s,
        metavar="DURATION",
        help="how long an owner's GPU lies idle before it counts as lent (30m; demand and job files only)",
    )
    parser.add_argument(
        "--no-age", action="store_true", help="leave out the effect of time since it was free"
    )


def read(arguments: argparse.Namespace, context: Context) -> tuple[Lending, float]:
    """The trace, and how far its owners are from UTC in seconds."""
    try:
        from gpunion.sim.traces.lending import read_lending
        from gpunion.sim.traces.pools import IDLE_S
        from gpunion.sim.traces.rows import TraceError
    except ImportError as error:
        raise missing_extra(error, "sim") from error
    path = context.here / arguments.file
    try:
        lending = read_lending(path, IDLE_S if arguments.idle is None else arguments.idle)
    except TraceError as error:
        code = USAGE if path.exists() else NOT_FOUND
        raise Trouble(str(error), next_step=error.next_step, code=code) from error
    offset_h = arguments.utc_offset
    return lending, lending.utc_offset_s if offset_h is None else offset_h * 3600.0


def _hours(text: str) -> float:
    try:
        hours = float(text)
    except ValueError:
        hours = math.nan
    if not abs(hours) <= HOURS_MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a zone; write hours east of UTC, like 8 or -5")
    return hours
