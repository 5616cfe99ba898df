"""The flags that describe a job, shared by `run` and `submit`, and the request they make."""

from __future__ import annotations

import argparse
import math
import shlex
from pathlib import Path

from gpunion.cli.campus import Json
from gpunion.cli.exits import USAGE, Trouble
from gpunion.cli.jobs.job_file import JobFile, packages_of
from gpunion.cli.quantities import (
    capability_range,
    count,
    cuda_range,
    positive_count,
    positive_duration_s,
    positive_number,
    shown_duration,
    size_bytes,
    some_memory,
    some_name,
)

NAME_LIMIT = 128


def add_job_flags(parser: argparse.ArgumentParser) -> None:
    _add_request_flags(parser.add_argument_group("what it needs"))
    job = parser.add_argument_group("the job")
    job.add_argument("--name", type=some_name, help="what to call it (the program's name)")
    job.add_argument(
        "--priority", choices=("low", "normal", "high"), help="against your own and others' jobs (normal)"
    )
    _add_stop_flags(job)
    job.add_argument("--lab", type=some_name, help="the lab it belongs to")
    job.add_argument(
        "--as", dest="user", type=some_name, metavar="NAME", help="who it is for (whom the token names)"
    )
    job.add_argument(
        "--image", metavar="IMAGE", help="run in this image of gpunion images ls: NAME or NAME@sha256:DIGEST"
    )
    job.add_argument(
        "--entrypoint",
        metavar="PROGRAM",
        help="run this before the command, in place of the image's own entry point; '': nothing",
    )
    job.add_argument(
        "--network",
        choices=("none", "allowed"),
        help="allowed: it reaches the places that a machine's owner allows (none)",
    )
    job.add_argument(
        "--env", type=_variable, action="append", metavar="K=V", help="set a variable; may be repeated"
    )
    job.add_argument(
        "--environment",
        metavar="NAME|FILE",
        help="have these packages: a name of gpunion environments ls, or a list in the directory that "
        "travels (requirements.txt, ./FILE)",
    )
    _add_checkpoint_flags(job)
    job.add_argument(
        "--expect", type=positive_duration_s, metavar="TIME", help="about how long it runs, like 2h"
    )
    job.add_argument(
        "--deadline",
        type=positive_duration_s,
        metavar="TIME",
        help="from now, by when it should be done, like 8h; needs --expect",
    )
    job.add_argument("--dir", type=Path, metavar="DIR", help="the directory that travels with it (.)")
    job.add_argument(
        "--include",
        metavar="NAME",
        action="append",
        default=[],
        help="send this of it although it is left out as a secret or the like; may be repeated",
    )
    job.add_argument("--no-dir", action="store_true", help="nothing travels with it")


def _add_stop_flags(job: argparse._ArgumentGroup) -> None:
    """When others may have its place."""
    job.add_argument(
        "--preemptible",
        action="store_true",
        help="what it cannot save may be lost where it makes room for a higher class",
    )
    job.add_argument(
        "--atomizable",
        action="store_true",
        help="it runs in windows: it may be saved and stopped, to go on in the next one (docs/windows.md)",
    )


def _add_request_flags(asked: argparse._ArgumentGroup) -> None:
    asked.add_argument("--gpus", type=count, metavar="N", help="how many GPUs (1)")
    asked.add_argument(
        "--vram", type=size_bytes, metavar="SIZE", help="memory each of them must have, like 20GB"
    )
    asked.add_argument(
        "--model",
        type=_words,
        action="extend",
        metavar="MODEL",
        help="only this model, like A100; may be repeated",
    )
    asked.add_argument(
        "--exclude", type=_words, action="extend", metavar="MODEL", help="not this model; may be repeated"
    )
    asked.add_argument(
        "--compute-capability",
        type=capability_range,
        metavar="RANGE",
        help='only GPUs of such a compute capability, like ">=8.0", in quotes',
    )
    asked.add_argument(
        "--cuda",
        type=cuda_range,
        metavar="RANGE",
        help='only where the driver supports such a CUDA at most, like ">=12.4", in quotes',
    )
    asked.add_argument(
        "--nodes",
        type=positive_count,
        metavar="N",
        help="N members that run all together or not at all, each with what is asked here (1)",
    )
    asked.add_argument("--cpus", type=positive_number, metavar="N", help="how many CPUs (1)")
    asked.add_argument("--memory", type=some_memory, metavar="SIZE", help="how much memory (1GiB)")


def _add_checkpoint_flags(job: argparse._ArgumentGroup) -> None:
    job.add_argument(
        "--checkpoint-tier",
        choices=("app", "system"),
        help="app: its program saves itself; system: the machine saves it whole, as it is (app)",
    )
    job.add_argument(
        "--encrypt",
        action="store_true",
        help="store what it saves and leaves encrypted, with a key of its own",
    )
    job.add_argument(
        "--place",
        metavar="NAME",
        help="keep what it saves in this place, one of: gpunion places (where the campus says)",
    )
    job.add_argument(
        "--replicas",
        type=positive_count,
        metavar="N",
        help="have it lie in so many places in the end (what the campus says)",
    )
    job.add_argument(
        "--checkpoint-command",
        type=_save_command,
        metavar="COMMAND",
        help="saves a program that cannot be changed: run beside it, in quotes; status 0 is a save",
    )
    job.add_argument(
        "--checkpoint-every",
        type=positive_duration_s,
        metavar="TIME",
        help="save it at least this often, like 60s",
    )


def job_request(arguments: argparse.Namespace, file: JobFile | None = None) -> Json:
    """The body of POST /jobs, without the bundle. Flags win over the file."""
    job: Json = dict(file.job) if file else {}
    if arguments.command:
        job["command"] = arguments.command
    _put(job, "image", arguments.image)
    _put(job, "entrypoint", None if arguments.entrypoint is None else shlex.split(arguments.entrypoint))
    if not job.get("command") and not job.get("image"):
        raise Trouble(
            "there is no command to run", next_step="write it after --, like: -- python train.py", code=USAGE
        )
    _put(job, "name", arguments.name)
    job.setdefault(
        "name", _name_of(job.get("command") or job.get("entrypoint") or [job["image"].partition("@")[0]])
    )
    _put(job, "priority", arguments.priority)
    _put(job, "preemptible", True if arguments.preemptible else None)
    _put(job, "atomizable", True if arguments.atomizable else None)
    _put(job, "lab", arguments.lab)
    _put(job, "user", arguments.user)
    if arguments.environment is not None:
        job.pop("lockfile", None)
        job.pop("packages", None)
        job |= packages_of(arguments.environment)
    _put(job, "network", arguments.network)
    _put(job, "place", arguments.place)
    _put(job, "gang", arguments.nodes)
    _put(job, "replicas", arguments.replicas)
    _put(job, "expected_s", arguments.expect)
    _put(job, "finish_within_s", arguments.deadline)
    _check_deadline(job)
    resources: Json = dict(job.get("resources", {}))
    for key, value in (
        ("gpus", arguments.gpus),
        ("vram", arguments.vram),
        ("models", arguments.model),
        ("exclude", arguments.exclude),
        ("compute_capability", arguments.compute_capability),
        ("cuda", arguments.cuda),
        ("cpus", arguments.cpus),
        ("memory", arguments.memory),
    ):
        _put(resources, key, value)
    if resources:
        job["resources"] = resources
    if arguments.env:
        job["environment"] = {**job.get("environment", {}), **dict(arguments.env)}
    if arguments.checkpoint_every is not None:
        job["checkpoint"] = {**job.get("checkpoint", {}), "max_interval_s": arguments.checkpoint_every}
    if arguments.checkpoint_command is not None:
        job["checkpoint"] = {**job.get("checkpoint", {}), "command": arguments.checkpoint_command}
    if arguments.checkpoint_tier is not None:
        job["checkpoint"] = {**job.get("checkpoint", {}), "tier": arguments.checkpoint_tier}
    if arguments.encrypt:
        job["checkpoint"] = {**job.get("checkpoint", {}), "encrypt": True}
    return job


def _check_deadline(job: Json) -> None:
    if "finish_within_s" in job and "expected_s" not in job:
        raise Trouble(
            "a deadline alone does not say when the job has to start",
            next_step="say as well how long it runs, about, with --expect, like: --expect 2h --deadline 8h",
            code=USAGE,
        )
    if job.get("finish_within_s", math.inf) < job.get("expected_s", 0.0):
        raise Trouble(
            "the deadline is over before a job that runs for so long can be done",
            why=f"it runs for {shown_duration(job['expected_s'])}, about, and should be done in "
            f"{shown_duration(job['finish_within_s'])}",
            next_step="a later --deadline, or a shorter --expect",
            code=USAGE,
        )


def folder_of(arguments: argparse.Namespace, here: Path, file: JobFile | None = None) -> Path | None:
    """Which directory travels with the job."""
    if arguments.no_dir and arguments.dir is not None:
        raise Trouble("--dir and --no-dir contradict each other", code=USAGE)
    if arguments.no_dir:
        return None
    if arguments.dir is not None:
        return here / Path(arguments.dir)
    return file.folder if file else here


def _put(table: Json, key: str, value: object) -> None:
    if value is not None:
        table[key] = value


def _name_of(command: list[str]) -> str:
    """The script rather than the interpreter: 'train.py' says more than 'python'. A program that is written
    out on the line, as with 'python -c', is no name."""
    if "-c" in command[1:3]:
        return Path(command[0]).name[:NAME_LIMIT]
    words = [word for word in command if not word.startswith("-")] or command
    interpreter = Path(words[0]).name.startswith(("python", "bash", "sh", "env", "uv"))
    word = words[1] if interpreter and len(words) > 1 else words[0]
    name = Path(word).name or shlex.join(command)
    return "".join(letter if letter.isprintable() else " " for letter in name)[:NAME_LIMIT]


def _save_command(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} has a quote that does not end") from error
    if not words:
        raise argparse.ArgumentTypeError(f"{text!r} names no program")
    return words


def _words(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise argparse.ArgumentTypeError(f"{text!r} names no model")
    return words


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value
