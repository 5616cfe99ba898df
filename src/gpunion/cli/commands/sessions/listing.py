"""`gpunion sessions`: who can be worked in, where, and for how long."""

from __future__ import annotations

import argparse

from gpunion.cli.campus import Json
from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.output.screen import Table
from gpunion.cli.quantities import shown_duration

CONNECTS = True
JSON = "`{sessions: [...]}`, newest first; a session as in GET /sessions (docs/http-api.md)."
EXAMPLES = ("gpunion sessions", "gpunion sessions -a")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-a", "--all", action="store_true", help="also those that are over")


def run(arguments: argparse.Namespace, context: Context) -> int:
    sessions = context.campus(arguments).sessions(all=arguments.all)
    if context.screen.as_json:
        context.screen.data({"sessions": sessions})
    elif not sessions:
        context.screen.line("No sessions; gpunion notebook opens one.")
    else:
        rows = [_row(one) for one in sessions]
        columns = ("NAME", "KIND", "PHASE", "WHERE", "KEPT AS", "IDLE", "MOVES", "USER")
        context.screen.table(Table(columns=columns, rows=list(rows)))
    return OK


def _row(session: Json) -> list[str]:
    return [
        session["name"],
        session["kind"],
        session["phase"],
        session["node"] or "-",
        session["level"] or "-",
        _idle(session),
        str(session["moves"]),
        session["user"],
    ]


def _idle(session: Json) -> str:
    if session["idle_s"] is None or session["idle_s"] < 1:
        return "-"
    words = shown_duration(session["idle_s"])
    if session["ends_in_s"] is None:
        return words
    return f"{words}, ends in {shown_duration(session['ends_in_s'])}"
