"""`gpunion notebook`: JupyterLab where a GPU is free, in the browser here."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from gpunion.cli.campus import Campus, Json
from gpunion.cli.context import Context
from gpunion.cli.exits import INTERRUPTED, OK
from gpunion.cli.jobs.following import exit_code_of
from gpunion.cli.jobs.job_flags import add_job_flags
from gpunion.cli.jobs.last_words import show_last_words
from gpunion.cli.jobs.submitting import submit
from gpunion.cli.quantities import port_number
from gpunion.cli.sessions.asking import (
    add_session_flags,
    living,
    name_for,
    request,
    session_name,
    streams_of,
)
from gpunion.cli.sessions.ssh_client import public_keys

CONNECTS = True
JSON = """One object a line: `{"type": "begun", "session"}` (`"opened"` where it lived already),
`{"type": "changed", "session"}` when it moves, `{"type": "ready", "url", "session"}` (the last one
where another `gpunion notebook` serves it already), at last
`{"type": "ended", "session"}` or, after Ctrl-C, `{"type": "left", "session"}`. A session is as in
GET /sessions/{name} (docs/http-api.md)."""
EXAMPLES = (
    "gpunion notebook",
    "gpunion notebook course --gpus 1 --environment pytorch",
    "gpunion notebook --name course",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", type=Path, nargs="?", metavar="FOLDER", help="what travels there and is worked in (.)"
    )
    add_job_flags(parser)
    add_session_flags(parser)
    parser.add_argument("--port", type=port_number, metavar="PORT", help="of this machine, for its page")
    parser.add_argument("--no-browser", action="store_true", help="say its address and open nothing")


def run(arguments: argparse.Namespace, context: Context) -> int:
    campus = context.campus(arguments)
    folder = context.here / (arguments.folder or arguments.dir or ".")
    name = session_name(arguments.name) if arguments.name else name_for(folder, "notebook")
    session = living(campus, name)
    if session is None:
        _check_port(arguments, context, name)
        travels = None if arguments.no_dir else folder
        asked = request(arguments, name, "notebook", public_keys(context.environment))
        submit(context, campus, asked, travels, included=arguments.include)
        session = campus.session(name)
        _say(context, "begun", session, f"Session {name} is asked for.")
    else:
        _say(context, "opened", session, f"Session {name} lives; this opens it.")
    return _open(arguments, context, campus, session)


def _check_port(arguments: argparse.Namespace, context: Context, name: str) -> None:
    streams_of(context, arguments)
    from gpunion.cli.sessions.serving import check_free, site_of

    asyncio.run(check_free(site_of(name, arguments.port)))


def _open(arguments: argparse.Namespace, context: Context, campus: Campus, session: Json) -> int:
    streams = streams_of(context, arguments)
    from gpunion.cli.sessions.browser import open_page
    from gpunion.cli.sessions.listening import loopback
    from gpunion.cli.sessions.proving import Proof, secret_of_user
    from gpunion.cli.sessions.serving import Told, address_to_open, serve, site_of

    site = site_of(session["name"], arguments.port)
    secret = secret_of_user(context.environment)
    proof = Proof(site=site, url=streams.url, addresses=loopback(), secret=secret)

    def changed(now: Json) -> None:
        _say(context, "changed", now, f"{now['name']}: {now['where']}.")

    def ready(url: str, now: Json) -> None:
        if context.screen.as_json:
            context.screen.record({"type": "ready", "url": url, "session": _without_token(now)})
        else:
            context.screen.line(url)
        if not arguments.no_browser and not context.screen.as_json:
            open_page(url, Path(context.environment.get("HOME") or Path.home()))

    def served(url: str, now: Json) -> None:
        ready(url, now)
        context.screen.note("Ready. Ctrl-C stops serving it here; the session goes on.")

    if asyncio.run(proof.is_given()):
        context.screen.note(f"It is served at {site.origin} already, by another gpunion of yours.")
        ready(address_to_open(site, session), session)
        return OK
    try:
        ended = asyncio.run(serve(proof, campus, streams, Told(changed=changed, ready=served)))
    except KeyboardInterrupt:
        name = session["name"]
        _say(
            context,
            "left",
            session,
            f"\nThe session goes on without this page.\n"
            f"Open it again: gpunion notebook --name {name}   Its files: gpunion sync {name} FOLDER   "
            f"End it: gpunion sessions end {name}",
        )
        return INTERRUPTED
    return _ended(context, campus, ended)


def _ended(context: Context, campus: Campus, ended: Json) -> int:
    """With the reason where it failed, which stands nowhere else than in its log, and its code."""
    name = ended["name"]
    words = f"Session {name} is over ({ended['phase']}). Its files: gpunion sync {name} FOLDER"
    _say(context, "ended", ended, words)
    if ended["phase"] != "failed":
        return OK
    if not context.screen.as_json:
        show_last_words(context, campus, ended["job_id"])
    return exit_code_of(campus.job(ended["job_id"]))


def _say(context: Context, kind: str, session: Json, words: str) -> None:
    if context.screen.as_json:
        context.screen.record({"type": kind, "session": _without_token(session)})
    else:
        context.screen.note(words)


def _without_token(session: Json) -> Json:
    return {key: session[key] for key in session if key != "token"}
