"""The packages a job asks for: once a node and once a list, however many jobs want them at the same time."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gpunion.agent.run_records.notes import RunNote
from gpunion.agent.tasks import in_own_thread
from gpunion.domain.environment import InstalledEnvironment, PackageList
from gpunion.domain.ids import RunId
from gpunion.domain.lockfile import (
    LOCKFILE_LIMIT_BYTES,
    BadLockfile,
    Lockfile,
    parse_lockfile,
    refuse_other_kinds,
)
from gpunion.ports.packages import Packages, PackagesFault, Wish
from gpunion.vault.job_directories import digest_of
from gpunion.vault.tree import FileEntry

FORMAT = 1
SHOWN_MOST = 64  # of the environments that a machine tells of with every heartbeat
DIGEST = re.compile(r"[0-9a-f]{64}")


class EnvironmentTrouble(Exception):
    """Why a job's packages are not here, in words for its user. `no_room`: elsewhere they may fit."""

    def __init__(self, words: str, *, no_room: bool = False) -> None:
        super().__init__(words)
        self.no_room = no_room


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What is asked for; known before any of it is here."""

    key: str
    name: str  # the lockfile's, in the job's directory
    lockfile: Lockfile
    place: Path
    label: str = ""  # the digest of a campus's own list

    def folders(self, work_dir: Path) -> tuple[Path, ...]:
        own = work_dir / self.name.rpartition("/")[0]
        return tuple(own / folder for folder in self.lockfile.wheel_folders)


@dataclass(slots=True)
class EnvironmentKeeper:
    packages: Packages
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)
    _used: dict[RunId, str] = field(default_factory=dict)
    installed: tuple[InstalledEnvironment, ...] = ()  # of the campus's own, as last looked at

    def plan(self, name: str, text: bytes, files: tuple[FileEntry, ...]) -> Environment:
        """What the lockfile asks for, on this machine's base. Equal wishes have equal keys."""
        try:
            refuse_other_kinds(name)
            lockfile = parse_lockfile(_decoded(name, text))
        except BadLockfile as error:
            raise EnvironmentTrouble(f"{name}: {error}") from error
        parent = f"{name.rpartition('/')[0]}/" if "/" in name else ""
        wheels = [
            [entry.path, list(entry.blocks)]
            for folder in lockfile.wheel_folders
            for entry in files
            if entry.path.startswith(f"{parent}{folder}/" if folder else parent)
            and entry.path.endswith(".whl")
        ]
        asked = [FORMAT, self.packages.base, lockfile.requirements, lockfile.no_index, sorted(wheels)]
        key = digest_of(json.dumps(asked).encode())
        return Environment(key=key, name=name, lockfile=lockfile, place=self.packages.place(key))

    def published(self, packages: PackageList) -> Environment:
        """An environment of the campus's, on this machine's base."""
        try:
            lockfile = parse_lockfile(packages.requirements)
        except BadLockfile as error:
            raise EnvironmentTrouble(f"the environment {packages.name}: {error}") from error
        asked = [FORMAT, self.packages.base, lockfile.requirements, packages.digest]
        key = digest_of(json.dumps(asked).encode())
        place = self.packages.place(key)
        name = f"the environment {packages.name}"
        return Environment(key=key, name=name, lockfile=lockfile, place=place, label=packages.digest)

    def look(self) -> None:
        """Blocks."""
        kept = self.packages.labelled()[:SHOWN_MOST]
        self.installed = tuple(
            InstalledEnvironment(digest=one.label, size_bytes=one.size_bytes)
            for one in kept
            if DIGEST.fullmatch(one.label)
        )

    def remember(self, notes: Iterable[RunNote]) -> None:
        """After a restart: what living guests use is in use."""
        self._used |= {note.run_id: note.packages for note in notes if note.packages}

    def holds(self, run_id: RunId, key: str) -> None:
        """From now on, until it is let go, nothing takes it from under this run."""
        self._used[run_id] = key

    def let_go(self, run_id: RunId) -> None:
        self._used.pop(run_id, None)

    async def have(
        self,
        environment: Environment,
        work_dir: Path,
        cancelled: Callable[[], bool],
        told: Callable[[float], None] = lambda done: None,
    ) -> bool:
        """Whether it had to be installed. Of several who ask at once, one does it and the others wait."""
        lock = self._locks.setdefault(environment.key, asyncio.Lock())
        async with lock:
            if cancelled():
                raise EnvironmentTrouble("it was ended before its packages were here")
            if await asyncio.to_thread(self.packages.ready, environment.key):
                return False
            wish = Wish(
                lockfile=environment.lockfile, folders=environment.folders(work_dir), label=environment.label
            )
            try:
                await in_own_thread(lambda: self.packages.install(environment.key, wish, cancelled, told))
            except PackagesFault as fault:
                raise EnvironmentTrouble(
                    f"the packages of {environment.name} could not be installed here: {fault}",
                    no_room=fault.no_room,
                ) from fault
            await asyncio.to_thread(self.packages.trim, frozenset(self._used.values()))
            await asyncio.to_thread(self.look)
            return True


def _decoded(name: str, text: bytes) -> str:
    if len(text) > LOCKFILE_LIMIT_BYTES:
        raise BadLockfile(f"it has {len(text)} bytes, {LOCKFILE_LIMIT_BYTES} is the most")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadLockfile(f"it is not text: {error}") from error
