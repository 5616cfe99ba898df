"""`gpunion hazard fit`: learn from a trace when its machines are taken back."""

from __future__ import annotations

import argparse
import json
import math
from typing import TYPE_CHECKING, Any

from gpunion.cli.context import Context
from gpunion.cli.exits import NOT_FOUND, OK, USAGE, Trouble
from gpunion.cli.extras import missing_extra
from gpunion.cli.output.progress import Progress
from gpunion.cli.output.screen import Table
from gpunion.cli.quantities import duration_s, shown_duration

JSON = """`{format, departure, utc_offset_h, units_read, departures, fleet, hours, units}`: `fleet` has
`{age_from_s, age_factor, weekday_shape, weekend_shape, spread}`, `hours` what was seen at each
hour of the day `{departures, lent_h}`, a unit `{unit, answer, departures, lent_h, rate_per_day,
survival_8h_from_monday_9}` with 168 rates from Monday 00:00 local time."""
EXAMPLES = (
    "gpunion hazard fit demand.csv --utc-offset 8",
    "gpunion hazard fit demand.csv --json --out learned.json",
)
ROWS_MOST = 40
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def configure(parser: argparse.ArgumentParser) -> None:
    configure_trace(parser)
    parser.add_argument("--out", metavar="FILE", help="keep what was learned, to go on from later")


def run(arguments: argparse.Namespace, context: Context) -> int:
    lending, utc_offset_s = read(arguments, context)
    from gpunion.lab.traces.shown import shown_fit
    from gpunion.lab.traces.study import fit, plan_fit

    plan = plan_fit(lending, utc_offset_s, age_effect=not arguments.no_age)
    with Progress(context.screen, plan.steps, "periods") as progress:
        book = fit(plan, progress.step)
    shown = shown_fit(lending, book)
    if arguments.out:
        _keep(context, arguments.out, book.to_plain())
    if context.screen.as_json:
        context.screen.data(shown)
    else:
        _show(context, shown)
    return OK


def _keep(context: Context, name: str, plain: dict[str, object]) -> None:
    try:
        (context.here / name).write_text(json.dumps(plain), encoding="utf-8")
    except OSError as error:
        raise Trouble(
            f"cannot write {name}: {error.strerror}", next_step="give --out a file in a folder that is there"
        ) from error
    context.screen.note(f"What was learned is in {name}.")


def _show(context: Context, shown: dict[str, Any]) -> None:
    screen, word = context.screen, shown["departure"]
    screen.line(
        f"Read as {shown['format']}: {shown['units_read']} units, {shown['departures']} departures ({word})."
    )
    columns = ("UNIT", "DEPARTURES", "LENT", "A DAY", "BUSIEST", "QUIETEST", "STAYS 8 H", "BY")
    units = sorted(shown["units"], key=lambda unit: -unit["departures"])
    screen.table(Table(columns=columns, rows=[_row(unit) for unit in units[:ROWS_MOST]]))
    if len(units) > ROWS_MOST:
        screen.line(f"... and {len(units) - ROWS_MOST} more; --json has them all.")
    screen.line(
        "STAYS 8 H: the chance of a machine that became free on Monday at 09:00. BY: where its rates come"
    )
    screen.line("from: own weeks, the fleet's week, flat (age only) or constant; the one that foretold best.")


def _row(unit: dict[str, Any]) -> list[str]:
    rates = unit["rate_per_day"]
    return [
        unit["unit"],
        str(unit["departures"]),
        shown_duration(unit["lent_h"] * 3600),
        f"{sum(rates) / len(rates):.3g}",
        _hour(rates, max(rates)),
        _hour(rates, min(rates)),
        f"{unit['survival_8h_from_monday_9']:.0%}",
        unit["answer"],
    ]


def _hour(rates: list[float], rate: float) -> str:
    if max(rates) == min(rates):
        return "-"
    day, hour = divmod(rates.index(rate), 24)
    return f"{DAYS[day]} {hour:02d}:00 {rate:.3g}"


if TYPE_CHECKING:
    from gpunion.lab.traces.lending import Lending

HOURS_MOST = 14.0  # the widest zones there are


def configure_trace(parser: argparse.ArgumentParser) -> None:
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
        from gpunion.lab.traces.lending import read_lending
        from gpunion.lab.traces.pools import IDLE_S
        from gpunion.lab.traces.rows import TraceError
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
