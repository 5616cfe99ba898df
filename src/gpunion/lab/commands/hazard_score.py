"""`gpunion hazard score`: how well would departures have been foretold? Never with a look ahead."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from gpunion.cli.context import Context
from gpunion.cli.exits import OK, Trouble
from gpunion.cli.output.progress import Progress
from gpunion.cli.output.screen import Table
from gpunion.lab.commands import hazard

JSON = """`{format, departure, utc_offset_h, units_read, departures, units_examined, age_effect, period_h,
first_part_h, later, left_out}`; `later` and `left_out` each have `{departures, gain_nats,
gain_over_best_constant_nats, worst_unit_gain_nats, gain_of_answer_nats, units, horizons}`, gains in nats per
departure over a constant rate, and a horizon `{horizon_h, forecasts, brier, constant_brier, skill,
reliability}`."""
EXAMPLES = (
    "gpunion hazard score demand.csv",
    "gpunion hazard score demand.csv --json --plot calibration.svg",
)
ROWS_MOST = 40


def configure(parser: argparse.ArgumentParser) -> None:
    hazard.configure(parser)
    parser.add_argument("--plot", metavar="OUT.svg", help="draw the calibration")


def run(arguments: argparse.Namespace, context: Context) -> int:
    lending, utc_offset_s = hazard.read(arguments, context)
    from gpunion.lab.traces.shown import shown_scores
    from gpunion.lab.traces.study import plan_score, score

    plan = plan_score(lending, utc_offset_s, age_effect=not arguments.no_age)
    with Progress(context.screen, plan.steps, "steps") as progress:
        shown = shown_scores(lending, plan, score(plan, progress.step))
    if shown["later"]["departures"] == 0:
        raise Trouble(
            f"{arguments.file}: nothing departs after the first {shown['first_part_h']:g} hours",
            why="the first part is for learning, the rest for scoring",
            next_step="give a longer record",
        )
    if arguments.plot:
        _plot(context, arguments.plot, shown)
    if context.screen.as_json:
        context.screen.data(shown)
    else:
        _show(context, shown)
    return OK


def _plot(context: Context, name: str, shown: dict[str, Any]) -> None:
    from gpunion.lab.traces.plot import calibration_svg

    departures = shown["later"]["departures"]
    title = f"{shown['format']}: {shown['units_examined']} units, {departures} departures scored"
    try:
        (context.here / name).write_text(calibration_svg(shown, title), encoding="utf-8")
    except OSError as error:
        raise Trouble(
            f"cannot write {name}: {error.strerror}", next_step="give --plot a file in a folder that is there"
        ) from error
    context.screen.note(f"The calibration is drawn in {name}.")


def _show(context: Context, shown: dict[str, Any]) -> None:
    screen, later, left_out = context.screen, shown["later"], shown["left_out"]
    examined = (
        f", {shown['units_examined']} examined" if shown["units_examined"] < shown["units_read"] else ""
    )
    screen.line(
        f"Read as {shown['format']}: {shown['units_read']} units{examined}, "
        f"{shown['departures']} departures ({shown['departure']}). "
        f"Scored after the first {shown['first_part_h']:g} h, a period of {shown['period_h']:g} h at a time."
    )
    screen.line()
    screen.table(
        Table(columns=("GAIN, NATS A DEPARTURE", "LATER", "LEFT OUT"), rows=_summary(later, left_out))
    )
    screen.line()
    units = sorted(later["units"], key=lambda unit: -later["units"][unit]["departures"])
    rows = [_row(unit, later["units"][unit], left_out["units"].get(unit, {})) for unit in units[:ROWS_MOST]]
    screen.table(Table(columns=("UNIT", "DEPARTURES", "LATER", "LEFT OUT"), rows=list(rows)))
    if len(units) > ROWS_MOST:
        screen.line(f"... and {len(units) - ROWS_MOST} more; --json has them all.")
    screen.line()
    columns = (
        "LATER, WITHIN",
        "FORECASTS",
        "BRIER",
        "CONSTANT'S",
        "FORETOLD -> SEEN, LOWEST AND HIGHEST TENTH",
    )
    screen.table(Table(columns=columns, rows=[_horizon(horizon) for horizon in later["horizons"]]))


def _summary(later: dict[str, Any], left_out: dict[str, Any]) -> list[Sequence[str]]:
    labels = {
        "gain_nats": "over the constant rate of the same past",
        "gain_over_best_constant_nats": "over the constant rate best in hindsight",
        "worst_unit_gain_nats": "worst unit",
    }
    return [[label, _nats(later[key]), _nats(left_out[key])] for key, label in labels.items()]


def _row(unit: str, later: dict[str, Any], left_out: dict[str, Any]) -> list[str]:
    return [unit, str(later["departures"]), _nats(later["gain_nats"]), _nats(left_out.get("gain_nats"))]


def _horizon(horizon: dict[str, Any]) -> list[str]:
    tenths = horizon["reliability"]
    ends = [f"{one['foretold']:.0%} -> {one['seen']:.0%}" for one in (*tenths[:1], *tenths[-1:])]
    return [
        f"{horizon['horizon_h']:g} h",
        str(horizon["forecasts"]),
        f"{horizon['brier']:.4f}",
        f"{horizon['constant_brier']:.4f}",
        ", ".join(ends) or "-",
    ]


def _nats(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"
