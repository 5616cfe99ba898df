"""`gpunion sync`: a session's files, as they are now."""

from __future__ import annotations

import argparse
import asyncio
import tarfile
from pathlib import Path

from gpunion.cli.campus import Campus, Json
from gpunion.cli.commands.guest.cp import told
from gpunion.cli.context import Context
from gpunion.cli.exits import OK, Trouble
from gpunion.cli.jobs.fetching import Wanted, fetch_output
from gpunion.cli.jobs.finishing import wait_until_sent
from gpunion.cli.quantities import shown_size
from gpunion.cli.sessions.asking import session_called, streams_of
from gpunion.cli.sessions.files import SHOWN_MAX, Brought, bring
from gpunion.sdk.errors import ApiProblem
from gpunion.sdk.streams import StreamBroken
from gpunion.text import counted

CONNECTS = True
JSON = """`{session, from, target, files, written, written_bytes, kept, left_out}`; `from`: the session, or
what it saved last (then the fields of `gpunion cp`). `kept`: newer here, so not replaced."""
EXAMPLES = ("gpunion sync course", "gpunion sync course results --force")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", help="its name")
    parser.add_argument("folder", type=Path, nargs="?", metavar="FOLDER", help="where to put them (.)")
    parser.add_argument("--force", action="store_true", help="also over files that are newer here")


def run(arguments: argparse.Namespace, context: Context) -> int:
    campus = context.campus(arguments)
    session = session_called(campus, arguments.session)
    target = context.here / (arguments.folder or ".")
    if session["here"] and session["ready"]:
        return _from_session(arguments, context, session, target)
    return _from_save(context, campus, session, target)


def _from_session(arguments: argparse.Namespace, context: Context, session: Json, target: Path) -> int:
    streams = streams_of(context, arguments)

    async def fetched() -> Brought:
        stream = await streams.to_session(session["job_id"], "files")
        return await bring(stream, target, force=arguments.force)

    try:
        brought = asyncio.run(fetched())
    except (OSError, tarfile.TarError, StreamBroken) as error:
        raise Trouble(
            f"the files of {session['name']} came only in part",
            why=str(error),
            next_step=f"again: gpunion sync {session['name']} (what has come is not fetched again)",
        ) from error
    if context.screen.as_json:
        context.screen.data({"session": session["name"], "from": "session", **brought.plain()})
        return OK
    changed = f"{brought.written} of them changed ({shown_size(brought.written_bytes)})"
    context.screen.line(f"{counted(brought.files, 'file')} of {session['name']}, {changed}, in {target}")
    for names, words in ((brought.kept, "newer here, kept as it is"), (brought.left_out, "left out")):
        for name in names[:SHOWN_MAX]:
            context.screen.note(f"  {name}: {words}")
    if brought.kept:
        context.screen.note("--force puts the session's files over those.")
    return OK


def _from_save(context: Context, campus: Campus, session: Json, target: Path) -> int:
    wanted = Wanted(job_id=session["job_id"], path="", target=target)
    wait_until_sent(context, campus, wanted.job_id)
    try:
        fetched = fetch_output(context.screen, campus, wanted)
    except ApiProblem as problem:
        if problem.code != "no_output":
            raise
        raise Trouble(problem.detail, why=session["where"], next_step="again, once it is there") from problem
    if context.screen.as_json:
        context.screen.data({"session": session["name"], "from": "save", **fetched.plain()})
    else:
        context.screen.line(f"As saved last ({session['where']}): {told(fetched)}")
    return OK
