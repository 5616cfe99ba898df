"""`gpunion join`: one command makes a machine part of a campus, on its owner's terms."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from gpunion.cli.agent_socket import add_state_dir, owner_settings, state_dir
from gpunion.cli.config import checked_url
from gpunion.cli.context import Context
from gpunion.cli.exits import CONFLICT, DENIED, ERROR, OK, UNAVAILABLE, USAGE, Trouble
from gpunion.cli.extras import missing_extra
from gpunion.cli.quantities import (
    duration_s,
    positive_count,
    positive_number,
    shown_size,
    some_memory,
    some_name,
)
from gpunion.text import counted

if TYPE_CHECKING:
    from gpunion.agent.settings import Settings
    from gpunion.domain.nodes.terms import Terms
    from gpunion.domain.resources import Gpu

JSON = "`{node_id, settings_file, next_step, lends}`; `lends` says in words what it can lend."
NAME_MAX_CHARS = 64  # as the coordinator takes them
EXAMPLES = (
    "gpunion join https://campus.example:8765 --token TOKEN --lab vision --gpu RTX4090:24GB",
    "gpunion join URL --token TOKEN --gpu A100:40GB --gpu A100:40GB --notice 2m --deny-lab rivals",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="the coordinator's address")
    parser.add_argument(
        "--token", required=True, help="a one-time join token (gpunion coordinator token makes one)"
    )
    machine = parser.add_argument_group("the machine")
    machine.add_argument("--name", type=some_name, help="what to call it (its host name)")
    machine.add_argument("--lab", type=some_name, help="the lab it belongs to")
    machine.add_argument("--building", type=some_name, help="where it stands; machines there share a link")
    machine.add_argument(
        "--gpu",
        action="append",
        default=[],
        metavar="MODEL:MEMORY[:SPEED]",
        help="a GPU it lends, and how fast it is next to an A100 (by its name); may be repeated",
    )
    machine.add_argument(
        "--runtime",
        choices=("sandbox", "docker", "podman", "auto"),
        default="sandbox",
        help="what guests run in; tried before joining. auto: the first of them that works here",
    )
    machine.add_argument("--cpus", type=positive_number, metavar="N", help="how many CPUs it lends (all)")
    machine.add_argument("--memory", type=some_memory, metavar="SIZE", help="how much memory it lends (all)")
    machine.add_argument(
        "--uplink", type=positive_number, metavar="BPS", help="its uplink in bits a second (1e9)"
    )
    machine.add_argument("--vault", metavar="DIR", help="where checkpoints go (where the campus says)")
    add_state_dir(machine)  # type: ignore[arg-type]
    terms = parser.add_argument_group("your terms")
    terms.add_argument("--notice", type=duration_s, metavar="TIME", help="how long guests get to leave (60s)")
    terms.add_argument("--max-guests", type=positive_count, metavar="N", help="at most so many at once")
    terms.add_argument(
        "--allow-lab",
        action="append",
        default=[],
        metavar="LAB",
        help="only guests of this lab; may be repeated",
    )
    terms.add_argument(
        "--deny-lab",
        action="append",
        default=[],
        metavar="LAB",
        help="no guests of this lab; may be repeated",
    )
    terms.add_argument(
        "--autonomy",
        type=duration_s,
        metavar="TIME",
        help="how long guests may go on while the coordinator is away (0s)",
    )
    terms.add_argument(
        "--allow-unsandboxed",
        action="store_true",
        help="take guests even where nothing shuts them in: they can read your files",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    url = checked_url(arguments.url)
    name = arguments.name or socket.gethostname().partition(".")[0]
    _check_names(name, "" if arguments.name else "the host name ", arguments.lab or "")
    gpus = tuple(_gpu(index, text) for index, text in enumerate(arguments.gpu))
    try:
        from gpunion.agent.compose.coordinator_requests import join
        from gpunion.agent.link.joining import AlreadyJoined, JoinRequest, JoinTrouble
    except ImportError as error:
        raise missing_extra(error, "agent") from error
    request = JoinRequest(
        url=url,
        join_token=arguments.token,
        name=name,
        lab=arguments.lab or "",
        state_dir=state_dir(arguments, context),
        building=arguments.building or "",
        gpus=gpus,
        vault=arguments.vault,
        cpus=arguments.cpus,
        memory_bytes=arguments.memory,
        uplink_bps=arguments.uplink,
        terms=_terms(arguments),
        runtime=_runtime(arguments),
    )
    try:
        joined = join(request)
    except AlreadyJoined as trouble:
        raise _not_joined(trouble, CONFLICT) from trouble
    except JoinTrouble as trouble:
        raise _not_joined(trouble) from trouble
    lends = _lends_here(request.state_dir, context)
    lends += "".join(f"\nWARNING: {line}" for line in _assumed_speeds(arguments.gpu, joined.settings_file))
    chosen = _said_of_choice(request.runtime) if arguments.runtime == "auto" else ""
    if context.screen.as_json:
        shown = {
            "node_id": joined.node_id,
            "settings_file": str(joined.settings_file),
            "next_step": context.screen.mend(joined.next_step),
            "lends": lends,
            "runtime": request.runtime,
        }
        context.screen.data(shown)
    else:
        context.screen.line(f"This machine is {joined.node_id} of the campus at {url}. Nobody is on it yet.")
        if joined.node_id == name.lower() != name:
            context.screen.line("It is called so because names there have small letters.")
        elif joined.node_id != name:
            context.screen.line(f"It is called so because {name.lower()!r} is taken there.")
        context.screen.line(lends)
        if chosen:
            context.screen.line(chosen)
        context.screen.line("To see and change your terms: gpunion terms")
        context.screen.line(
            "The campus is told whether somebody is logged in, types or computes here, and never who: "
            "gpunion terms set signs=no ends that."
        )
        context.screen.line(f"Next: {joined.next_step}")
    return OK


def _check_names(name: str, what: str, lab: str) -> None:
    """Before anything is asked: the campus would say no, and mean neither the token nor this machine."""
    import re

    from gpunion.wire.v1.patterns import IN_WORDS, NODE_NAME, WORD

    for flag, told, word, pattern in (
        ("--name", f"{what}{name!r} cannot be a machine's name", name, NODE_NAME),
        ("--lab", f"{lab!r} cannot be a lab's name", lab, WORD),
    ):
        if not re.match(pattern, word) or len(word) > NAME_MAX_CHARS:
            raise Trouble(told, next_step=f"choose one with {flag}: {IN_WORDS[pattern]}", code=USAGE)


def _lends_here(folder: Path, context: Context) -> str:
    """It has joined, and nothing that is found now may sound as if it had not."""
    from gpunion.agent.compose.gpus import asks_driver

    try:
        settings = owner_settings(folder, context)
    except Trouble as trouble:  # the environment, or terms that were there before
        return f"An agent would not start as it is: {trouble.what}. {trouble.next_step}".rstrip()
    return _lends(settings, asks_driver(settings)) + _more_than_there_is(settings)


def _more_than_there_is(settings: Settings) -> str:
    """Said and not refused: what is made up for a trial, or comes tomorrow, is its owner's business."""
    there_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    more = [
        *([f"{shown_size(there_bytes)} of memory"] if settings.memory_bytes > there_bytes else []),
        *([counted(os.cpu_count() or 1, "CPU")] if settings.cpus > (os.cpu_count() or settings.cpus) else []),
    ]
    return (
        f"\nWARNING: this machine has {' and '.join(more)}; guests that need more are ended." if more else ""
    )


def _lends(settings: Settings, driver: bool) -> str:
    """What it can lend as it is. `driver`: its GPUs are those that NVIDIA's driver shows."""
    rest = f"{counted(float(settings.cpus), 'CPU')} and {shown_size(settings.memory_bytes)} of memory"
    if settings.gpus:
        return f"It lends {counted(len(settings.gpus), 'GPU')}, as named by you, {rest}."
    if not driver:
        return (
            f"There is no NVIDIA driver here and you named no GPU, so it lends none: {rest}, to jobs that "
            f"need no GPU (--gpus 0). If there is one, install its driver, or write [[gpu]] into "
            f"{settings.state_dir / 'agent.toml'}."
        )
    if find_spec("pynvml") is None:
        return (
            f"There is an NVIDIA driver here and nothing to ask it with, so it lends no GPU yet: {rest}. "
            f"To lend its GPUs: {sys.executable} -m pip install 'gpunion[gpu]'"
        )
    return f"It lends the GPUs that its NVIDIA driver shows (gpunion status), {rest}."


def _runtime(arguments: argparse.Namespace) -> str:
    """One that works here, tried before the token is spent."""
    from gpunion.agent.compose.runtimes import try_runtime

    wanted = ("sandbox", "docker", "podman") if arguments.runtime == "auto" else (arguments.runtime,)
    refused = []
    for name in wanted:
        tried = try_runtime(name)
        if not tried.trouble or (name == "sandbox" and arguments.allow_unsandboxed):
            return name
        refused.append(tried)
    raise Trouble(
        "guests cannot be run here: " + "; ".join(f"{tried.name}: {tried.trouble}" for tried in refused),
        next_step=refused[0].mend or "gpunion doctor",
    )


def _said_of_choice(runtime: str) -> str:
    """What --runtime auto has settled, where that keeps some jobs away."""
    from gpunion.domain.nodes.node import IMAGE_RUNTIMES

    if runtime in IMAGE_RUNTIMES:
        return f"Guests run in {runtime}, as the first that works here."
    return (
        f"Guests run in the {runtime}, as the first that works here. No image can run in it, so jobs with "
        "--image go to other machines. For those: gpunion leave, then gpunion join with --runtime podman"
    )


def _not_joined(trouble: Exception, code: int = ERROR) -> Trouble:
    """Nobody there, a refusal (the token is the one thing the other side can object to), or trouble here."""
    what, _, next_step = str(trouble).partition("Next: ")
    temporary = getattr(trouble.__cause__, "temporary", None)
    code = {None: code, True: UNAVAILABLE, False: DENIED}[temporary]
    return Trouble(what.strip().removesuffix("."), next_step=next_step, code=code)


def _gpu(index: int, text: str) -> Gpu:
    from gpunion.domain.gpu_models import declared_speed
    from gpunion.domain.resources import Gpu

    parts = text.split(":")
    if len(parts) not in (2, 3) or not parts[0]:
        raise Trouble(
            f"--gpu {text}: write MODEL:MEMORY or MODEL:MEMORY:SPEED, like A100:40GB or RTX3090:24GB:0.45",
            code=USAGE,
        )
    try:
        speed = positive_number(parts[2]) if len(parts) == 3 else declared_speed(parts[0])
        return Gpu(index=index, model=parts[0], memory_bytes=some_memory(parts[1]), speed=speed)
    except argparse.ArgumentTypeError as error:
        raise Trouble(f"--gpu {text}: {error}", code=USAGE) from error


def _assumed_speeds(named: list[str], settings_file: Path) -> Iterator[str]:
    """Of cards whose owner says no speed and whose name says none."""
    from gpunion.domain.gpu_models import REFERENCE, known_speed, most_like

    for model in dict.fromkeys(text.partition(":")[0] for text in named if text.count(":") == 1):
        if known_speed(model) is None:
            near = most_like(model)
            meant = f"; did you mean {near}?" if near else "."
            yield (
                f"{model} is no model that is known{meant} It counts as fast as an {REFERENCE}. "
                f"To say otherwise: its speed in {settings_file}"
            )


def _terms(arguments: argparse.Namespace) -> Terms:
    from gpunion.domain.nodes.terms import Terms

    usual = Terms()
    return Terms(
        notice_s=usual.notice_s if arguments.notice is None else arguments.notice,
        allow_unsandboxed=arguments.allow_unsandboxed,
        allow_labs=tuple(arguments.allow_lab),
        deny_labs=tuple(arguments.deny_lab),
        max_guests=arguments.max_guests or usual.max_guests,
        autonomy_s=arguments.autonomy or usual.autonomy_s,
    )
