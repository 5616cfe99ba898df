"""`gpunion places accept`: a folder that lacks its mark is the place all the same."""

from __future__ import annotations

import argparse

from gpunion.cli.context import Context
from gpunion.cli.exits import OK

CONNECTS = True
JSON = "`{name, kind, where, settings, trouble, reached_by}`: the place as it is now."
EXAMPLES = ("gpunion places accept attic",)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", metavar="NAME", help="of a place that is a folder, as gpunion places lists it"
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    place = context.campus(arguments).accept_place(arguments.name)
    if context.screen.as_json:
        context.screen.data(place)
        return OK
    context.screen.line(f"{place['name']} is what lies there now; nodes look for it within a minute.")
    context.screen.line("A job whose checkpoints lay there and are gone says so when it is to go on.")
    return OK
