"""The packages a job asks for: once a node and once a list, however many jobs want them at the same time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gpunion.agent.run_notes import RunNote
from gpunion.agent.threads import in_own_thread
from gpunion.domain.ids import RunId
from gpunion.domain.lockfile import (
    LOCKFILE_LIMIT_BYTES,
    BadLockfile,
    Lockfile,
    parse_lockfile,
    refuse_other_kinds,
)
from gpunion.domain.tree import FileEntry
from gpunion.ports.packages import Packages, PackagesFault, Wish
from gpunion.wire.trees import digest_of

FORMAT = 1


class EnvironmentTrouble(Exception):
    """Why a job's packages are not here, in words for its user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What is asked for; known before any of it is here."""

    key: str
    name: str  # the lockfile's, in the job's directory
    lockfile: Lockfile
    place: Path

    def folders(self, work_dir: Path) -> tuple[Path, ...]:
        own = work_dir / self.name.rpartition("/")[0]
        return tuple(own / folder for folder in self.lockfile.wheel_folders)


@dataclass(slots=True)
class EnvironmentKeeper:
    packages: Packages
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)
    _used: dict[RunId, str] = field(default_factory=dict)

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

    def remember(self, notes: Iterable[RunNote]) -> None:
        """After a restart: what living guests use is in use."""
        self._used |= {note.run_id: note.packages for note in notes if note.packages}

    def holds(self, run_id: RunId, key: str) -> None:
        """From now on, until it is let go, nothing takes it from under this run."""
        self._used[run_id] = key

    def let_go(self, run_id: RunId) -> None:
        self._used.pop(run_id, None)

    async def have(self, environment: Environment, work_dir: Path, cancelled: Callable[[], bool]) -> bool:
        """Whether it had to be installed. Of several who ask at once, one does it and the others wait."""
        lock = self._locks.setdefault(environment.key, asyncio.Lock())
        async with lock:
            if cancelled():
                raise EnvironmentTrouble("it was ended before its packages were here")
            if await asyncio.to_thread(self.packages.ready, environment.key):
                return False
            wish = Wish(lockfile=environment.lockfile, folders=environment.folders(work_dir))
            try:
                await in_own_thread(lambda: self.packages.install(environment.key, wish, cancelled))
            except PackagesFault as fault:
                raise EnvironmentTrouble(
                    f"the packages of {environment.name} could not be installed here: {fault}"
                ) from fault
            await asyncio.to_thread(self.packages.trim, frozenset(self._used.values()))
            return True


def _decoded(name: str, text: bytes) -> str:
    if len(text) > LOCKFILE_LIMIT_BYTES:
        raise BadLockfile(f"it has {len(text)} bytes, {LOCKFILE_LIMIT_BYTES} is the most")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadLockfile(f"it is not text: {error}") from error
