"""Environments: named, pinned sets of packages that an operator publishes for jobs.

What a name stands for is pinned when a job is handed in: the list travels with the job, and a later list of
the same name is for later jobs.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from gpunion.domain.lockfile import EXPORTS, BadLockfile, parse_lockfile

# It travels in the order to start, whole: well below what a frame may have.
LIST_LIMIT_BYTES = 128 * 1024
NAME_LIMIT_CHARS = 64
NAMES_SHOWN = 5
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageList:
    """An environment's packages; equal digests are equal lists."""

    name: str
    digest: str
    requirements: str  # as pip reads them, one a line


@dataclass(frozen=True, slots=True, kw_only=True)
class CampusEnvironment:
    """What jobs may name; the list that its name stands for now."""

    id: str  # the name
    packages: PackageList
    added_s: float
    added_by: str
    removed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledEnvironment:
    """One that lies on a machine, ready to be used."""

    digest: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentAdded:
    packages: PackageList
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRemoved:
    name: str
    by: str


EnvironmentEvent = EnvironmentAdded | EnvironmentRemoved


def names_a_file(word: str) -> bool:
    """Whether what a job calls its environment is a list in its own directory, and not the campus's."""
    return "/" in word or word.endswith(".txt") or word in EXPORTS


def check_name(name: str) -> str:
    """ValueError says what is wrong."""
    if names_a_file(name):
        raise ValueError(f"{name[:80]!r} is a file's name; an environment has none like that")
    if len(name) > NAME_LIMIT_CHARS or not _NAME.fullmatch(name):
        raise ValueError(
            f"{name[:80]!r} names no environment; write small letters, digits, '.', '_' and '-', "
            "like pytorch-2.4"
        )
    return name


def package_list(name: str, text: str) -> PackageList:
    """Every package in one exact version, from where the owners of the machines have theirs. ValueError."""
    check_name(name)
    if len(text.encode()) > LIST_LIMIT_BYTES:
        raise BadLockfile(f"the list has {len(text.encode())} bytes, {LIST_LIMIT_BYTES} is the most")
    lockfile = parse_lockfile(text)
    if not lockfile.requirements:
        raise BadLockfile("it lists no package")
    if lockfile.wheel_folders or lockfile.no_index:
        raise BadLockfile("it names a folder of wheels, and no directory travels with an environment")
    if lockfile.loose:
        shown = ", ".join(lockfile.loose[:NAMES_SHOWN]) + (", ..." if lockfile.loose[NAMES_SHOWN:] else "")
        raise BadLockfile(
            f"it leaves versions open ({shown}), so machines would differ; write name==version, "
            "as pip freeze does"
        )
    requirements = "".join(f"{line}\n" for line in lockfile.requirements)
    digest = hashlib.sha256(requirements.encode()).hexdigest()
    return PackageList(name=name, digest=digest, requirements=requirements)
