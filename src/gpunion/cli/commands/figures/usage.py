"""`gpunion usage`: who used and lent how much, and what became of the work."""

from __future__ import annotations

import argparse

from gpunion.cli.campus import Campus
from gpunion.cli.context import Context
from gpunion.cli.exits import NOT_FOUND, OK, USAGE, Trouble
from gpunion.cli.output.usage import show_usage, usage_as_csv
from gpunion.cli.quantities import positive_duration_s, some_name

CONNECTS = True
JSON = "as GET /usage answers (docs/http-api.md, docs/usage.md)."
EXAMPLES = ("gpunion usage", "gpunion usage --since 30d --lab vision", "gpunion usage --csv > usage.csv")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--since", type=positive_duration_s, default=positive_duration_s("7d"), metavar="AGO",
        help="how far back, e.g. 24h, 30d (default: 7d)",
    )  # fmt: skip
    parser.add_argument("--lab", type=some_name, help="only jobs of its people, and its machines")
    parser.add_argument("--user", type=some_name, help="only their jobs")
    parser.add_argument("--csv", action="store_true", help="people and labs as comma-separated lines")


def run(arguments: argparse.Namespace, context: Context) -> int:
    if arguments.csv and context.screen.as_json:
        raise Trouble("--csv and --json: it can be one of them", next_step="leave one out", code=USAGE)
    campus = context.campus(arguments)
    answer = campus.usage(for_s=arguments.since, lab=arguments.lab, user=arguments.user)
    if arguments.lab and not (answer["labs"] or answer["people"]):
        _check_lab(arguments.lab, campus)
    screen = context.screen
    if screen.as_json:
        screen.data(answer)
    elif arguments.csv:
        for line in usage_as_csv(answer):
            screen.line(line)
    else:
        show_usage(answer, screen)
    return OK


def _check_lab(lab: str, campus: Campus) -> None:
    """Where there is nothing to tell of it: labs are known by their machines and by what was done."""
    if all(node["lab"] != lab for node in campus.nodes(all=True)):
        raise Trouble(
            f"no machine is of a lab {lab}, and nobody of it handed in or used anything then",
            next_step="gpunion nodes lists the labs that lend; a longer --since looks further back",
            code=NOT_FOUND,
        )
