"""What a snapshot's folder holds, as it is told in its `about.json`."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

ABOUT_FILE = "about.json"
LOADED_FILE = "loaded.json"  # what was lacking when it was loaded
ALL = "all variables"
STOOD_IN = "as they were at"
FORMAT = 1
ABOUT_MAX_BYTES = 16 * 1024 * 1024  # of a kernel with very many variables
WHY_MAX_CHARS = 160


@dataclass(frozen=True, slots=True)
class Lacking:
    """A variable that is not there, or not as it was, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """`at`: where it begins in its file. Small ones share one: what is saved is named file by file."""

    file: str
    at: int
    names: tuple[str, ...]
    size_bytes: int
    saved_at: float  # Unix time; of one taken over from an earlier snapshot: when that was


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    saved_at: float
    python: str
    modules: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    unsaved: tuple[Lacking, ...] = ()
    sys_path: tuple[str, ...] = ()
    directory: str = ""

    @property
    def size_bytes(self) -> int:
        return sum(group.size_bytes for group in self.groups)


def write_about(folder: Path, about: About) -> None:
    """Last of all: a folder without it is no snapshot."""
    fresh = folder / f".{ABOUT_FILE}"
    fresh.write_text(json.dumps({"format": FORMAT, **asdict(about)}), encoding="utf-8")
    fresh.rename(folder / ABOUT_FILE)


def read_about(folder: Path) -> About | None:
    """None: nothing was saved there, or nothing that this version reads."""
    try:
        with open(folder / ABOUT_FILE, "rb") as file:
            told = json.loads(file.read(ABOUT_MAX_BYTES))
        if told["format"] != FORMAT:
            return None
        return About(
            saved_at=float(told["saved_at"]),
            python=str(told["python"]),
            modules={str(name): str(module) for name, module in told["modules"].items()},
            groups=tuple(_group(group) for group in told["groups"]),
            unsaved=tuple(Lacking(str(one["name"]), str(one["why"])) for one in told["unsaved"]),
            sys_path=tuple(str(place) for place in told["sys_path"]),
            directory=str(told["directory"]),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _group(told: Mapping[str, object]) -> Group:
    names = told["names"]
    if not isinstance(names, list):
        raise ValueError("a group without names")
    return Group(
        file=Path(str(told["file"])).name,
        at=int(str(told["at"])),
        names=tuple(str(name) for name in names),
        size_bytes=int(str(told["size_bytes"])),
        saved_at=float(str(told["saved_at"])),
    )


def stand_in(older: Path | None, folder: Path, why: str) -> str:
    """The last state that is known, for one that could not be had. It says so itself, to whoever loads it: a
    guest that ends may have nobody left to tell. Returns what is said."""
    about = None if older is None else read_about(older)
    if older is None or about is None:
        return why
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in older.iterdir():
        if file.name not in (ABOUT_FILE, LOADED_FILE):
            (folder / file.name).hardlink_to(file)
    at = time.strftime("%H:%M:%S", time.gmtime(about.saved_at))
    words = f"{STOOD_IN} {at} UTC: {why}"[:WHY_MAX_CHARS]
    others = [one for one in about.unsaved if one.name != ALL]
    write_about(folder, replace(about, unsaved=(Lacking(ALL, words), *others)))
    return words


def in_words(error: BaseException) -> str:
    said = " ".join(str(error).split())
    return (said or type(error).__name__)[:WHY_MAX_CHARS]
