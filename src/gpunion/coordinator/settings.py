"""What an operator can choose: from a TOML file, then the environment, then arguments; the last one wins.

Environment names are GPUNION_COORDINATOR_ plus the key (GPUNION_COORDINATOR_PORT), for the table `timing`
GPUNION_COORDINATOR_TIMING_ plus the key. A key nobody knows is an error: a misspelt setting that is silently
ignored is worse than none.
"""

from __future__ import annotations

import difflib
import math
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from gpunion.domain.timing import Timing
from gpunion.policy.policies import BUNDLES
from gpunion.policy.preemption import PREEMPTION
from gpunion.policy.windows.policy import USUAL_BOUNDS
from gpunion.policy.windows.scoring import WEIGHTS
from gpunion.vault.locations import CAMPUS, place_of

ENVIRONMENT_PREFIX = "GPUNION_COORDINATOR_"
DEFAULT_PORT = 8765
VAULT_DIR = "vault"  # in the data folder, where no other is named
LOG_FORMATS = ("text", "json")
NO_WINDOWS = "off"


class BadSettings(ValueError):
    """What is wrong with which setting, and where it came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    data_dir: Path
    host: str = "127.0.0.1"  # beyond loopback, put TLS in front: tokens travel in a header
    port: int = DEFAULT_PORT  # 0: any free one
    vault: str = ""  # where checkpoints live, as agents are told; empty: DATA_DIR/vault
    policies: str = "gpunion"
    # Who makes room: "at-once" for class high, "when-it-pays" for all, or "off". Empty: as the policies say.
    preemption: str = ""
    # What counts for jobs that run in windows: "fair", "efficient" or "deadlines"; "off": nobody does.
    windows: str = "fair"
    turn_least_s: float = USUAL_BOUNDS.least_s  # no turn is shorter than this, and none longer than that
    turn_most_s: float = USUAL_BOUNDS.most_s
    log_format: str = "text"
    lead_s: float = 30.0  # how long the lead lasts without being renewed
    # Of the disk: directories of jobs and saves are refused before the database cannot be written any more.
    keep_free_bytes: int = 512 * 1024**2
    places: Mapping[str, Any] = field(default_factory=dict)  # [places.NAME], see docs/vault.md
    replicas: int = 1  # in how many places they lie in the end
    place: str = CAMPUS  # where checkpoints of a job go that names none
    strict_audit: bool = False  # a broken invariant ends the process (tests)
    timing: Timing = field(default_factory=Timing)

    @property
    def vault_place(self) -> str:
        return self.vault or str(self.data_dir / VAULT_DIR)


def default_data_dir() -> Path:
    data_home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data_home) / "gpunion" / "coordinator"


def load(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Settings:
    chosen: dict[str, Any] = {}
    timing: dict[str, Any] = {}
    for source, values in _sources(file, environment or {}, arguments or {}):
        plain = dict(values)
        table = plain.pop("timing", {})
        if not isinstance(table, Mapping):
            raise BadSettings(f"{source}: timing is a table of seconds")
        _refuse_unknown(source, plain, _SETTINGS)
        _check_places(source, plain)
        _refuse_unknown(f"{source}: timing", table, _TIMING)
        chosen |= {key: _SETTINGS[key](f"{source}: {key}", value) for key, value in plain.items()}
        timing |= {key: _seconds(f"{source}: timing.{key}", value) for key, value in table.items()}
    chosen.setdefault("data_dir", default_data_dir())
    settings = Settings(timing=Timing(**timing), **chosen)
    if not 0 < settings.turn_least_s <= settings.turn_most_s:
        raise BadSettings(
            f"turn_least_s ({settings.turn_least_s:g}) has to be more than nothing and not above turn_most_s "
            f"({settings.turn_most_s:g})"
        )
    return settings


def _check_places(source: str, values: Mapping[str, Any]) -> None:
    tables = values.get("places", {})
    if not isinstance(tables, Mapping):
        raise BadSettings(f"{source}: places are written as [places.NAME] sections")
    for name, table in tables.items():
        try:
            place_of(name, table)
        except ValueError as error:
            raise BadSettings(f"{source}: places.{error}") from error


def _sources(
    file: Path | None, environment: Mapping[str, str], arguments: Mapping[str, Any]
) -> Iterable[tuple[str, Mapping[str, Any]]]:
    if file is not None:
        yield str(file), _read(file)
    yield "environment", _from_environment(environment)
    yield "arguments", {key: value for key, value in arguments.items() if value is not None}


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadSettings(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise BadSettings(f"{file} is not TOML: {error}") from error


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in environment.items():
        if name.startswith(ENVIRONMENT_PREFIX):
            key = name.removeprefix(ENVIRONMENT_PREFIX).lower()
            if key.startswith("timing_"):
                values.setdefault("timing", {})[key.removeprefix("timing_")] = value
            else:
                values[key] = value
    return values


def _refuse_unknown(source: str, values: Iterable[str], known: Iterable[str]) -> None:
    known = list(known)
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise BadSettings(f"{source}: unknown key {key!r}; {hint}")


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str | Path):
        raise BadSettings(f"{name} is a text, not {value!r}")
    return str(value)


def _path(name: str, value: Any) -> Path:
    return Path(_text(name, value)).expanduser().absolute()


def _port(name: str, value: Any) -> int:
    try:
        port = int(str(value))
    except ValueError:
        port = -1
    if not 0 <= port <= 65535:
        raise BadSettings(f"{name} is a number from 0 to 65535, not {value!r}")
    return port


def _seconds(name: str, value: Any) -> float:
    try:
        seconds = float(str(value))
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise BadSettings(f"{name} is a number of seconds, not {value!r}")
    return seconds


def _bytes(name: str, value: Any) -> int:
    if not str(value).isdecimal():
        raise BadSettings(f"{name} is a number of bytes, not {value!r}")
    return int(str(value))


def _count(name: str, value: Any) -> int:
    if not str(value).isdecimal() or int(str(value)) < 1:
        raise BadSettings(f"{name} is a number from 1, not {value!r}")
    return int(str(value))


def _switch(name: str, value: Any) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if str(value).lower() not in words:
        raise BadSettings(f"{name} is true or false, not {value!r}")
    return words[str(value).lower()]


def _log_format(name: str, value: Any) -> str:
    if value not in LOG_FORMATS:
        raise BadSettings(f"{name} is one of {', '.join(LOG_FORMATS)}, not {value!r}")
    return str(value)


def _preemption(name: str, value: Any) -> str:
    if value not in PREEMPTION:
        raise BadSettings(f"{name} is one of {', '.join(PREEMPTION)}, not {value!r}")
    return str(value)


def _policies(name: str, value: Any) -> str:
    if value not in BUNDLES:
        raise BadSettings(f"{name} is one of {', '.join(sorted(BUNDLES))}, not {value!r}")
    return str(value)


def _windows(name: str, value: Any) -> str:
    if value not in (*WEIGHTS, NO_WINDOWS):
        raise BadSettings(f"{name} is one of {', '.join((*WEIGHTS, NO_WINDOWS))}, not {value!r}")
    return str(value)


_TIMING = tuple(item.name for item in fields(Timing))
_SETTINGS = {
    "data_dir": _path,
    "host": _text,
    "port": _port,
    "vault": _text,
    "policies": _policies,
    "preemption": _preemption,
    "windows": _windows,
    "turn_least_s": _seconds,
    "turn_most_s": _seconds,
    "places": lambda name, value: dict(value),
    "place": _text,
    "replicas": _count,
    "log_format": _log_format,
    "lead_s": _seconds,
    "keep_free_bytes": _bytes,
    "strict_audit": _switch,
}
