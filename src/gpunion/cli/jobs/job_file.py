"""`gpunion.toml`: a job written down. Unknown keys are errors, with what was probably meant."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpunion.cli.campus import Json
from gpunion.cli.exits import DENIED, NOT_FOUND, USAGE, Trouble
from gpunion.cli.parser import did_you_mean
from gpunion.cli.quantities import capability_range, cuda_range, positive_duration_s, size_bytes
from gpunion.domain.environment import names_a_file

JOB_FILE = "gpunion.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    job: Json  # as POST /jobs wants it
    folder: Path | None  # what travels with it


def add_job_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help=f"a job file; without one and without a command, {JOB_FILE}",
    )


def named_job_file(arguments: argparse.Namespace, here: Path, verb: str) -> JobFile | None:
    """The one that was named; without a name and without a command the one that lies here."""
    if arguments.file is not None:
        file = here / arguments.file
        if file.suffix != ".toml" and not file.exists():
            raise Trouble(
                f"there is no job file {arguments.file}",
                next_step=f"a command comes after --, like: gpunion {verb} -- {arguments.file}",
                code=USAGE,
            )
        return read_job_file(file, verb)
    usual = here / JOB_FILE
    if arguments.command or arguments.image or (verb == "run" and not usual.exists()):
        return None
    return read_job_file(usual, verb)


def read_job_file(path: Path, verb: str = "submit") -> JobFile:
    import tomllib

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Trouble(
            f"there is no job file {path}",
            next_step=f"write one (docs/cli.md), or give the job in flags: gpunion {verb} -- COMMAND",
            code=NOT_FOUND,
        ) from None
    except OSError as error:
        raise Trouble(f"{path} cannot be read", why=error.strerror or str(error), code=DENIED) from error
    except UnicodeDecodeError as error:
        raise Trouble(f"{path} is no text in UTF-8", next_step="save it as UTF-8", code=USAGE) from error
    except tomllib.TOMLDecodeError as error:
        raise Trouble(
            f"{path} is not TOML",
            why=str(error),  # it names line and column
            next_step="mend that line; docs/cli.md shows what a job file looks like"
            if path.suffix == ".toml"
            else f"to run it, write its command after --, like: gpunion {verb} -- python {path.name}",
            code=USAGE,
        ) from error
    try:
        return _job_file(table, path.parent)
    except ValueError as error:
        raise Trouble(
            f"{path}: {error}", next_step="mend the file; docs/cli.md lists its keys", code=USAGE
        ) from error


def _job_file(table: Json, place: Path) -> JobFile:
    read = _read(table, "", KEYS)
    job: Json = {key: read[key] for key in SAME_IN_THE_API if key in read}
    if "env" in read:
        job["environment"] = read["env"]
    if "environment" in read:
        job |= packages_of(read["environment"])
    if "expect" in read:
        job["expected_s"] = read["expect"]
    if "deadline" in read:
        job["finish_within_s"] = read["deadline"]
    if "resources" in read:
        job["resources"] = _read(read["resources"], "resources.", RESOURCE_KEYS)
    if "checkpoint" in read:
        asked = _read(read["checkpoint"], "checkpoint.", CHECKPOINT_KEYS)
        job["checkpoint"] = {
            f"{key}_s" if key.endswith("_interval") else key: value for key, value in asked.items()
        }
    if "windows" in read:
        asked = _read(read["windows"], "windows.", WINDOW_KEYS)
        job["windows"] = {f"{key}_s" if key in IN_SECONDS else key: value for key, value in asked.items()}
    folder = read.get("dir", ".")
    return JobFile(job=job, folder=None if folder is False else place / folder)


def _read(table: Json, prefix: str, keys: dict[str, Key]) -> Json:
    read: Json = {}
    for name, value in table.items():
        if name not in keys:
            meant = did_you_mean(name, keys) or f"; known are {', '.join(keys)}"
            raise ValueError(f"unknown key {prefix}{name}{meant}")
        try:
            read[name] = keys[name].read(value)
        except (ValueError, argparse.ArgumentTypeError) as error:
            raise ValueError(f"{prefix}{name}: {error}") from error
    return read


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text in quotes")
    return value


def _command(value: Any) -> list[str]:
    if isinstance(value, str):
        return shlex.split(value)
    return _texts(value)


def _save_command(value: Any) -> list[str]:
    words = _command(value)
    if not words or not words[0]:
        raise ValueError("it names no program; leave it out where the program saves itself")
    return words


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ValueError(f"{value!r} is not a list of texts")
    return value


def _priority(value: Any) -> str:
    if value not in ("low", "normal", "high"):
        raise ValueError(f"{value!r} is not low, normal or high")
    return str(value)


def _tier(value: Any) -> str:
    if value not in ("app", "system"):
        raise ValueError(f'{value!r} is not "app" or "system"')
    return str(value)


def _signal(value: Any) -> str:
    if value not in ("SIGHUP", "SIGINT", "SIGUSR1", "SIGUSR2"):
        raise ValueError(f'{value!r} is not "SIGHUP", "SIGINT", "SIGUSR1" or "SIGUSR2"')
    return str(value)


def _yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is not true or false")
    return value


def _network(value: Any) -> str:
    if value not in ("none", "allowed"):
        raise ValueError(f'{value!r} is not "none" or "allowed"')
    return str(value)


def _table(value: Any) -> Json:
    if not isinstance(value, dict):
        raise ValueError("this is a table, written as a [section]")
    return value


def _variables(value: Any) -> dict[str, str]:
    table = _table(value)
    for name, text in table.items():
        if not isinstance(text, str):
            raise ValueError(f"{name} = {text!r} is not a text in quotes")
    return table


def _environment(value: Any) -> str:
    if isinstance(value, dict):
        raise ValueError("this names packages; variables are in the section [env]")
    return _text(value)


def packages_of(environment: str) -> Json:
    """What is asked for: a list that travels with the job, or what the campus publishes under a name."""
    if names_a_file(environment):
        return {"lockfile": environment.removeprefix("./")}
    return {"packages": environment}


def _folder(value: Any) -> str | bool:
    if value is False or isinstance(value, str):
        return value
    raise ValueError(f"{value!r} is neither a directory nor false")


def _size(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return size_bytes(_text(value))


def _capability(value: Any) -> str:
    return capability_range(_text(value))


def _cuda(value: Any) -> str:
    return cuda_range(_text(value))


def _memory(value: Any) -> int:
    size = _size(value)
    if size == 0:
        raise ValueError(f"{value!r} is no amount of memory")
    return size


def _seconds(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    return positive_duration_s(_text(value))


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is not a whole number, zero or more")
    return value


def _safe_points(value: Any) -> int:
    if _whole(value) < 1:
        raise ValueError(f"{value!r} is not a number of steps, one or more")
    return int(value)


def _vram(value: Any) -> str:
    if value not in ("learned", "declared"):
        raise ValueError(f'{value!r} is not "learned" or "declared"')
    return str(value)


def _members(value: Any) -> int:
    if _whole(value) < 1:
        raise ValueError(f"{value!r} is not a number of members, one or more")
    return int(value)


def _places(value: Any) -> int:
    if _whole(value) < 1:
        raise ValueError(f"{value!r} is not a number of places, one or more")
    return int(value)


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{value!r} is not a number above zero")
    return float(value)


SAME_IN_THE_API = (
    "name",
    "preemptible",
    "atomizable",
    "command",
    "image",
    "entrypoint",
    "network",
    "place",
    "replicas",
    "priority",
    "lab",
    "gang",
)


@dataclass(frozen=True, slots=True)
class Key:
    read: Callable[[Any], Any]
    meaning: str  # for docs/cli.md


KEYS = {
    "name": Key(_text, "what to call it"),
    "command": Key(_command, 'what to run: a list of words, or one text (`"python train.py"`)'),
    "dir": Key(_folder, "the directory that travels with it (the file's own); `false`: nothing does"),
    "image": Key(_text, 'the image to run in: a name of `gpunion images ls`, or `"name@sha256:..."`'),
    "entrypoint": Key(
        _command, "runs before the command, in place of the image's own ENTRYPOINT; `[]`: nothing does"
    ),
    "network": Key(_network, '`"allowed"`: the places that a node\'s owner allows; else none at all'),
    "place": Key(_text, "where its checkpoints are kept: a name of `gpunion places` (where the campus says)"),
    "replicas": Key(_places, "in how many places its checkpoints lie in the end (what the campus says)"),
    "priority": Key(_priority, "`low`, `normal` or `high`"),
    "preemptible": Key(
        _yes_or_no, "`true`: what it cannot save may be lost where it makes room for a higher class"
    ),
    "atomizable": Key(
        _yes_or_no, "`true`: it runs in windows: it may be saved and stopped, to go on in the next one"
    ),
    "lab": Key(_text, "the lab it belongs to"),
    "expect": Key(_seconds, 'about how long it runs, like `"2h"`'),
    "deadline": Key(_seconds, 'how long after handing in it should be done, like `"8h"`; needs `expect`'),
    "gang": Key(_members, "how many members run together or not at all (1); `resources` are each one's"),
    "environment": Key(
        _environment,
        'packages to have: a name of `gpunion environments ls`, or a list in `dir`: `"requirements.txt"`',
    ),
    "env": Key(_variables, "a section of variables"),
    "resources": Key(_table, "a section, below"),
    "checkpoint": Key(_table, "a section, below"),
    "windows": Key(_table, "a section, below; with `atomizable = true`"),
}
RESOURCE_KEYS = {
    "gpus": Key(_whole, "how many GPUs (1)"),
    "vram": Key(_size, 'memory each of them must have, like `"20GB"`'),
    "models": Key(_texts, "only these models"),
    "exclude": Key(_texts, "not these models"),
    "compute_capability": Key(_capability, 'only GPUs of such a compute capability, like `">=8.0"`'),
    "cuda": Key(_cuda, 'only where the driver supports such a CUDA at most, like `">=12.4"`'),
    "cpus": Key(_number, "how many CPUs (1)"),
    "memory": Key(_memory, 'how much memory (`"1GiB"`)'),
}
CHECKPOINT_KEYS = {
    "max_interval": Key(_seconds, 'save it at least this often, like `"60s"`'),
    "min_interval": Key(_seconds, "and not more often than this"),
    "tier": Key(_tier, '`"app"`: its program saves itself; `"system"`: it is saved whole, as it is'),
    "command": Key(
        _save_command, "saves a program that cannot be changed: run beside it, status 0 is a save"
    ),
    "signal": Key(_signal, 'makes such a program save itself, like `"SIGUSR2"`'),
    "encrypt": Key(_yes_or_no, "`true`: what it saves and leaves is stored encrypted, with a key of its own"),
}
IN_SECONDS = ("shortest", "longest")
WINDOW_KEYS = {
    "shortest": Key(
        _seconds, 'no window shorter than this (five times what coming and going cost it), like `"5m"`'
    ),
    "longest": Key(_seconds, 'it bids for no longer piece, like `"30m"`'),
    "not_on": Key(_texts, "machines on which it wants no window"),
    "bid": Key(_yes_or_no, "`false`: it begins nothing until `gpunion bids JOB --again`"),
    "vram": Key(_vram, '`"learned"`: what it was seen to need counts; `"declared"`: what `resources` asks'),
    "safe_every": Key(_safe_points, "steps from one point where it saves cheaply to the next (1)"),
}
