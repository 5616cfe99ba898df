"""The session somebody means, and the request that begins one."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpunion.cli.campus import Campus, Json
from gpunion.cli.config import find_address
from gpunion.cli.context import Context
from gpunion.cli.exits import NOT_FOUND, USAGE, Trouble
from gpunion.cli.extras import missing_extra
from gpunion.cli.jobs.job_flags import job_request
from gpunion.cli.quantities import positive_duration_s
from gpunion.domain.jobs.session import NAME_IN_WORDS, is_session_name
from gpunion.sdk.errors import ApiProblem
from gpunion.sdk.sessions import PROGRAM

if TYPE_CHECKING:
    from gpunion.sdk.streams import Streams

NAME_CHARS = 32


def session_name(text: str) -> str:
    if not is_session_name(text):
        raise Trouble(f"{text!r} is no name of a session", why=f"a name is {NAME_IN_WORDS}", code=USAGE)
    return text


def session_called(campus: Campus, name: str) -> Json:
    """Also one that is over."""
    try:
        return campus.session(name)
    except ApiProblem as problem:
        if problem.status != 404:
            raise
        raise Trouble(
            f"there is no session {name!r}", next_step="gpunion sessions -a lists them", code=NOT_FOUND
        ) from problem


def add_session_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--idle-end",
        type=positive_duration_s,
        metavar="TIME",
        help="end it when nobody has worked in it for so long, like 1h (what the campus says)",
    )


def name_for(folder: Path | None, kind: str) -> str:
    """After the folder it is for, as an address can have it."""
    name = "" if folder is None else re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")
    return name[:NAME_CHARS].strip("-") or kind


def living(campus: Campus, name: str) -> Json | None:
    """The session of that name; None where none lives."""
    try:
        found = campus.session(name)
    except ApiProblem as problem:
        if problem.status != 404:
            raise
        return None
    return None if found["ended_at"] else found


def request(arguments: argparse.Namespace, name: str, kind: str, ssh_keys: list[str]) -> Json:
    """The body of POST /jobs that begins it."""
    if arguments.command:
        raise Trouble("a session runs its own program", next_step="gpunion run -- COMMAND", code=USAGE)
    arguments.name, arguments.command = name, [*PROGRAM, kind]
    job = job_request(arguments)
    job["session"] = {"kind": kind, "ssh_keys": ssh_keys}
    if arguments.idle_end is not None:
        job["session"]["idle_end_s"] = arguments.idle_end
    return job


def streams_of(context: Context, arguments: argparse.Namespace) -> Streams:
    address = find_address(context.environment, arguments)
    try:
        from gpunion.sdk.streams import Streams
    except ImportError as error:
        raise missing_extra(error, "cli") from error
    return Streams(address.url, address.token)
