"""`gpunion ssh`: a shell in a session, by this machine's own ssh."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
from pathlib import Path

from gpunion.cli.campus import Json
from gpunion.cli.config import find_address
from gpunion.cli.context import Context
from gpunion.cli.exits import NOT_FOUND, OK, UNAVAILABLE, USAGE, Trouble
from gpunion.cli.jobs.job_flags import add_job_flags
from gpunion.cli.jobs.submitting import submit
from gpunion.cli.sessions import ssh_client
from gpunion.cli.sessions.asking import add_session_flags, living, request, session_name, streams_of

CONNECTS = True
TAKES_COMMAND = True
SSH_FAILED = 255  # its own trouble, and not the command's
JSON = None
EXAMPLES = (
    "gpunion ssh course",
    "gpunion ssh course -- nvidia-smi",
    "gpunion ssh work --new --gpus 1",
    "gpunion ssh --config",
    "scp data.csv gpunion-course:",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", metavar="SESSION", help="its name")
    parser.add_argument("--new", action="store_true", help="begin it, as a shell without a notebook")
    parser.add_argument(
        "--config",
        action="store_true",
        help="write what ssh, scp, rsync and editors need to reach gpunion-SESSION",
    )
    parser.add_argument("--stdio", action="store_true", help="carry bytes for ssh's ProxyCommand")
    add_job_flags(parser)
    add_session_flags(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    url = find_address(context.environment, arguments).url
    if arguments.config:
        return _config(context, url)
    if arguments.session is None:
        raise Trouble("which session?", next_step="gpunion sessions lists them", code=USAGE)
    name = session_name(arguments.session.removeprefix(ssh_client.HOST_PREFIX))
    if arguments.stdio:
        return _stdio(arguments, context, name)
    command, arguments.command = list(arguments.command or ()), None
    _check(arguments, context, name)
    words = ssh_client.command(context.environment, url, name, command)
    code = subprocess.run(words, env=_with_token(context, arguments), check=False).returncode
    if code == SSH_FAILED:
        session = living(context.campus(arguments), name)
        if session is not None:
            _check_ssh(session)  # of one that was just begun that is not known any sooner
    return code


def _check(arguments: argparse.Namespace, context: Context, name: str) -> None:
    campus = context.campus(arguments)
    session = living(campus, name)
    if session is None and arguments.new:
        keys = ssh_client.public_keys(context.environment)
        folder = None if arguments.no_dir or arguments.dir is None else context.here / arguments.dir
        submit(context, campus, request(arguments, name, "shell", keys), folder, included=arguments.include)
        context.screen.note(f"Session {name} is asked for.")
        return
    if session is None:
        raise Trouble(
            f"no session {name} lives",
            next_step=f"gpunion sessions lists them; gpunion ssh {name} --new begins one",
            code=NOT_FOUND,
        )
    _check_ssh(session)


def _check_ssh(session: Json) -> None:
    name = session["name"]
    if session["no_ssh"]:
        raise Trouble(
            f"nobody can enter {name} by ssh",
            why=session["no_ssh"],
            next_step=f"gpunion attach {name}, or end it: gpunion sessions end {name}",
            code=UNAVAILABLE,
        )


def _with_token(context: Context, arguments: argparse.Namespace) -> dict[str, str]:
    """ssh starts the command that carries its bytes with what it has itself."""
    address = find_address(context.environment, arguments)
    return {**context.environment, "GPUNION_URL": address.url, "GPUNION_TOKEN": address.token}


def _config(context: Context, url: str) -> int:
    ssh_client.public_keys(context.environment)
    home = Path(context.environment.get("HOME") or Path.home())
    place, told = ssh_client.write_config(context.environment, url, home)
    context.screen.line(f"{place} is written" + (", and ~/.ssh/config includes it." if told else "."))
    context.screen.line("Now: ssh gpunion-SESSION, scp FILE gpunion-SESSION:, or that host in your editor.")
    return OK


def _stdio(arguments: argparse.Namespace, context: Context, name: str) -> int:
    streams = streams_of(context, arguments)
    from gpunion.cli.sessions.pipes import as_stdio

    async def carry() -> None:
        await as_stdio(await streams.to_session(name, "ssh", patience_s=0.0))

    asyncio.run(carry())
    return OK
