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
from gpunion.cli.jobs.trusting import is_believed
from gpunion.cli.quantities import shown_size
from gpunion.cli.sessions.asking import session_called, streams_of
from gpunion.cli.sessions.files import Brought, Names, bring
from gpunion.sdk.errors import ApiProblem
from gpunion.sdk.streams import StreamBroken
from gpunion.text import counted

BELIEVED = "left out, since programs here would run it or trust it"
CONNECTS = True
JSON = """`{session, from, target, files, written, written_bytes, kept, kept_number, left_out,
left_out_number}`; `from`: the session, or what it saved last (then the fields of `gpunion cp`). `kept`: newer
here, so not replaced; `left_out`: would lead elsewhere, or be run or trusted here. Of both the first 20."""
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
    for names, words in (
        (brought.kept, "newer here, kept as it is"),
        (brought.believed, BELIEVED),
        (brought.left_out, "left out"),
    ):
        _name(context, names, words)
    if brought.kept.number:
        context.screen.note("--force puts the session's files over those.")
    return OK


def _name(context: Context, names: Names, words: str) -> None:
    for name in names.first:
        context.screen.note(f"  {name}: {words}")
    if names.number > len(names.first):
        context.screen.note(f"  and {names.number - len(names.first)} more: {words}")


def _from_save(context: Context, campus: Campus, session: Json, target: Path) -> int:
    wanted = Wanted(job_id=session["job_id"], path="", target=target, refuses=is_believed)
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
