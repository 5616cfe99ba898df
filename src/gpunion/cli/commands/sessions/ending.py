"""`gpunion sessions end`: end one, with all it has kept."""

from __future__ import annotations

import argparse

from gpunion.cli.context import Context
from gpunion.cli.exits import OK
from gpunion.cli.sessions.asking import session_called

CONNECTS = True
JSON = "A session as in GET /sessions/{name} (docs/http-api.md), without its token."
EXAMPLES = ("gpunion sessions end course",)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", help="its name")


def run(arguments: argparse.Namespace, context: Context) -> int:
    campus = context.campus(arguments)
    session = campus.end_session(session_called(campus, arguments.session)["job_id"])
    if context.screen.as_json:
        context.screen.data({key: session[key] for key in session if key != "token"})
        return OK
    name = session["name"]
    context.screen.line(
        f"{name} is asked to end. Its files and variables are kept: gpunion sync {name} FOLDER"
    )
    return OK
