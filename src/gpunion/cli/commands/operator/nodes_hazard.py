"""`gpunion nodes hazard`: when are machines expected to be wanted back, and how well was that foretold?"""

from __future__ import annotations

import argparse
from pathlib import Path

from gpunion.cli.campus import Json
from gpunion.cli.context import Context
from gpunion.cli.exits import ERROR, OK, USAGE, Trouble
from gpunion.cli.output.hazard_chart import based_on, campus_svg, node_svg, week_lines
from gpunion.cli.output.screen import Table
from gpunion.cli.output.times import ago
from gpunion.cli.quantities import shown_duration

CONNECTS = True
JSON = """as GET /hazard answers, or with NODE as GET /nodes/{id}/hazard (docs/http-api.md): chances that a
machine stays, the mean time until it is wanted back, what that is based on, and the calibration so far."""
EXAMPLES = (
    "gpunion nodes hazard",
    "gpunion nodes hazard alpha --plot",
    "gpunion nodes hazard alpha --plot alpha.svg",
)
ON_SCREEN = "-"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("node", metavar="NODE", nargs="?", help="more of this one")
    parser.add_argument(
        "--plot",
        metavar="OUT.svg",
        nargs="?",
        const=ON_SCREEN,
        help="draw it: into a file, or without one on the screen",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    _check_plot(arguments)
    campus = context.campus(arguments)
    if arguments.node is None:
        answer = campus.hazard()
        drawing = campus_svg
    else:
        answer = campus.node_hazard(arguments.node)
        drawing = node_svg
    if arguments.plot not in (None, ON_SCREEN):
        _write(context, arguments.plot, drawing(answer))
    if context.screen.as_json:
        context.screen.data(answer)
    elif arguments.node is None:
        _show_all(context, answer)
    else:
        _show_one(context, answer, week=arguments.plot == ON_SCREEN)
    return OK


def _check_plot(arguments: argparse.Namespace) -> None:
    plot = arguments.plot
    if plot is None or (plot == ON_SCREEN and arguments.node is not None):
        return
    if plot == ON_SCREEN:
        raise Trouble(
            "a plot on the screen is of one machine",
            next_step="name it (gpunion nodes hazard NODE --plot), or name a file (--plot OUT.svg)",
            code=USAGE,
        )
    if not plot.endswith(".svg"):
        raise Trouble(
            f"{plot!r} is no name for a plot", next_step="name a file that ends in .svg", code=USAGE
        )


def _write(context: Context, name: str, drawing: str) -> None:
    try:
        Path(name).write_text(drawing, encoding="utf-8")
    except OSError as error:
        why = error.strerror or str(error)
        raise Trouble(f"cannot write {name}", why=why, next_step="name another file", code=ERROR) from error
    context.screen.note(f"drawn into {name}")


def _show_all(context: Context, answer: Json) -> None:
    screen = context.screen
    if not answer["nodes"]:
        screen.line("No machine has joined, so nothing is expected of any.")
        return
    columns = ("NODE", "PHASE", "1 H", "4 H", "12 H", "WANTED BACK IN", "BASED ON")
    screen.table(Table(columns=columns, rows=[_row(node) for node in answer["nodes"]]))
    screen.line()
    screen.line("1 H, 4 H, 12 H: how likely it is lent for that long from now on.")
    screen.line(_learned(answer))
    if answer["learns"]:
        screen.line(
            f"Owners announce {answer['announced_share']:.0%} of their departures, as far as is known."
        )
        _show_signs(context, answer.get("signs", []))
        _show_calibration(context, answer)


def _show_signs(context: Context, signs: list[Json]) -> None:
    if not signs:
        return
    context.screen.line()
    context.screen.line("What signs of an owner were worth, on all machines together:")
    rows = [
        [
            " and ".join(one["shown"]) or "none of them",
            f"{one['departures']:.1f}",
            f"{one['expected']:.1f}",
            f"x {one['factor']:.1f}",
        ]
        for one in signs
    ]
    context.screen.table(
        Table(columns=("SHOWN", "DEPARTURES", "EXPECTED", "SO THE RATE IS"), rows=list(rows))
    )


def _row(node: Json) -> list[str]:
    stays = [f"{one['chance']:.0%}" for one in node["stays"]] or ["-"] * 3
    wanted = "-" if node["expected_s"] is None else f"about {shown_duration(_round(node['expected_s']))}"
    return [str(node["node"]), str(node["phase"]), *stays, wanted, based_on(node)]


def _show_one(context: Context, node: Json, *, week: bool) -> None:
    screen = context.screen
    screen.line(f"{node['node']} is {node['phase']}.")
    for one in node["stays"]:
        screen.line(f"  stays for {one['hours']:g} h: {one['chance']:.0%} (at least {one['cautious']:.0%})")
    if node["expected_s"] is not None:
        screen.line(f"  wanted back in about {shown_duration(_round(node['expected_s']))} on average")
    screen.line(f"  known from {based_on(node)}")
    screen.line(_learned(node))
    if week:
        screen.line()
        for line in week_lines(node["departures_per_h"]):
            screen.line(f"  {line}")
    _show_calibration(context, node)


def _learned(answer: Json) -> str:
    if not answer["learns"]:
        return "The coordinator's policies do not learn; what is shown is what is assumed of any machine."
    if answer["learned_at"] is None:
        return "Nothing was learned yet: the first lesson is drawn after an hour."
    return f"Learned {ago(answer['learned_at'])}."


def _show_calibration(context: Context, answer: Json) -> None:
    bins = answer["calibration"]
    if not bins:
        context.screen.line("No forecast has come to its end yet.")
        return
    context.screen.line()
    context.screen.line("Departures within four hours, as foretold and as seen:")
    rows = [[f"{one['foretold']:.0%}", f"{one['seen']:.0%}", str(one["forecasts"])] for one in bins]
    context.screen.table(Table(columns=("FORETOLD", "SEEN", "FORECASTS"), rows=list(rows)))


def _round(seconds: float) -> float:
    """To the minute, or to the hour where it is days: more would be more than anybody knows."""
    unit_s = 60.0 if seconds < 86_400 else 3600.0
    return max(unit_s, round(seconds / unit_s) * unit_s)
