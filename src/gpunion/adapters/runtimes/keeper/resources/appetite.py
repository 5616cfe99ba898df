"""What a guest takes of its host's memory and disk, for keepers of guests that the kernel does not limit.

Measured from outside, a few times a second, at a cost that is itself limited: a look that takes long is not
repeated soon. Standard library only: a keeper starts in a hurry.
"""

from __future__ import annotations

import math
import os
import stat
import time
from collections.abc import Callable, Iterable

MIB = 1024**2

# The names of ports.runtime.ExitReason, not imported: its dataclasses would triple the time to start.
OUT_OF_MEMORY, OUT_OF_DISK = "out_of_memory", "out_of_disk"

# A guest far from its limit is looked at less often: one thread fills about this much in a second.
FILL_BYTES_PER_S = 1024 * MIB
MEMORY_LOOK_S = (0.1, 0.25)
CLOSE_LOOK_S = (1.0, 1.0)
OPEN_FILES_LOOK_S = (2.0, 30.0)
DISK_LOOK_S = (2.0, 60.0)
COST_MAX = 0.02  # of a core, for looking at a guest with very many processes or files
STRETCH_MAX_S = 30.0  # however long a look takes, a guest is not left alone for longer
# Exact counting walks a guest's page tables; between two of them the rough count has to have grown.
EXACT_AGAIN_S = 1.0

MEMORY_FILES = ("tmp", "dev/shm")  # file systems inside that live in memory; a guest cannot move them
# A disk as full as this belongs to its owner: guests that hold more than that themselves go.
DISK_FLOOR_BYTES = 512 * MIB
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
STATM_BYTES, FIELDS_BYTES = 256, 16_384  # more than the kernel writes
DISK_STIR_BYTES = MIB  # less than this has happened on the whole disk: nobody needs to be measured


class Pace:
    """When to look again, so that looking never costs more than its share."""

    def __init__(self, bounds_s: tuple[float, float]) -> None:
        self._least_s, self._most_s = bounds_s
        self._next_s = 0.0

    def due(self, now_s: float) -> bool:
        return now_s >= self._next_s

    def took(self, now_s: float, took_s: float, wish_s: float = 0.0) -> None:
        usual_s = min(max(wish_s, self._least_s), self._most_s)
        self._next_s = now_s + max(usual_s, min(took_s / COST_MAX, STRETCH_MAX_S))


class Appetite:
    """One guest's. `pids` are its processes, seen from outside; `folders` are its own directories."""

    def __init__(
        self, pids: Callable[[], Iterable[int]], folders: list[str], *, memory_bytes: int, disk_bytes: int
    ) -> None:
        """Zero: no limit of ours. The disk's floor holds all the same."""
        self._pids = pids
        self._folders = folders
        self._granted_bytes = memory_bytes
        self.extra_bytes = 0  # on top of it, while something of the guest is parked in memory
        self._disk_bytes = disk_bytes
        self._memory, self._files, self._disk = map(Pace, (MEMORY_LOOK_S, OPEN_FILES_LOOK_S, DISK_LOOK_S))
        self._closely = Pace(CLOSE_LOOK_S)
        self._nameless = _Nameless(memory_bytes=0, disk_bytes=0)
        self._exact_s, self._exact_headroom, self._exact_rough = 0.0, 0, 0
        self._free_bytes = -1
        self._device = os.stat(folders[0]).st_dev

    @property
    def _memory_bytes(self) -> int:
        return self._granted_bytes and self._granted_bytes + self.extra_bytes

    def passed(self, now_s: float) -> str:
        """Which limit the guest is over, if any. To be asked often; looks when it is time to."""
        if (self._memory_bytes or self._disk_bytes) and self._files.due(now_s):
            began_s = time.monotonic()
            self._nameless = _nameless(map(_shown_by, self._pids()), self._device)
            self._files.took(now_s, time.monotonic() - began_s)
        if self._memory_bytes and self._memory.due(now_s) and self._over_memory(now_s):
            return OUT_OF_MEMORY
        if self._disk.due(now_s) and self._over_disk(now_s):
            return OUT_OF_DISK
        return ""

    def _over_memory(self, now_s: float) -> bool:
        began_s = time.monotonic()
        pids = list(map(_shown_by, self._pids()))
        most = sum(map(_resident_bytes, pids))
        if most < self._memory_bytes and not self._closely.due(now_s):
            headroom = self._memory_bytes - most
            self._memory.took(now_s, time.monotonic() - began_s, headroom / FILL_BYTES_PER_S)
            return False
        self._closely.took(now_s, 0.0)  # swap and files in memory are in no quick count
        rough = _Taken(pids, exact=False)
        used = rough.total_bytes(self._nameless.memory_bytes)
        headroom = self._memory_bytes - used
        if headroom < 0 and self._worth_exactness(now_s, used):
            exact = _Taken(pids, exact=True)
            headroom = self._memory_bytes - exact.total_bytes(self._nameless.memory_bytes)
            self._exact_s, self._exact_headroom, self._exact_rough = now_s, headroom, used
            if headroom < 0:
                return True
        self._memory.took(now_s, time.monotonic() - began_s, headroom / FILL_BYTES_PER_S)
        return False

    def _worth_exactness(self, now_s: float, rough_bytes: int) -> bool:
        """Pages that processes share are counted for each of them in the rough."""
        grown = rough_bytes - self._exact_rough
        return grown > self._exact_headroom or now_s - self._exact_s >= EXACT_AGAIN_S

    def _over_disk(self, now_s: float) -> bool:
        began_s = time.monotonic()
        space = os.statvfs(self._folders[0])
        free = space.f_bavail * space.f_frsize
        scarce = free < DISK_FLOOR_BYTES
        over = False
        if (self._disk_bytes or scarce) and abs(free - self._free_bytes) >= DISK_STIR_BYTES:
            self._free_bytes = free
            used = self._nameless.disk_bytes + sum(_tree_bytes(folder) for folder in self._folders)
            over = (0 < self._disk_bytes < used) or (scarce and used > DISK_FLOOR_BYTES)
        self._disk.took(now_s, time.monotonic() - began_s)
        return over


class _Taken:
    """Memory of some processes together: their own pages, and what they share in memory."""

    def __init__(self, pids: list[int], *, exact: bool) -> None:
        self.own_bytes = self.shared_bytes = 0
        self._inside = 0
        for pid in pids:
            fields = _fields(f"/proc/{pid}/status")
            if not fields:
                continue
            if not self._inside and len(fields.get("NSpid", "").split()) > 1:
                self._inside = pid
            names = ("RssAnon", "VmSwap", "RssShmem")
            if exact:
                rolled_up = _fields(f"/proc/{pid}/smaps_rollup")
                if rolled_up:  # a process may refuse; then it is counted roughly
                    fields, names = rolled_up, ("Pss_Anon", "SwapPss", "Pss_Shmem")
            anonymous, swapped, shared = (_kib(fields.get(name, "0")) for name in names)
            self.own_bytes += anonymous + swapped
            self.shared_bytes += shared

    def total_bytes(self, nameless_bytes: int) -> int:
        """A file in memory that is mapped as well is in both counts, so the larger one of them stands."""
        return self.own_bytes + max(self.shared_bytes, nameless_bytes + self._files_bytes())

    def _files_bytes(self) -> int:
        used = 0
        for place in MEMORY_FILES if self._inside else ():
            try:
                space = os.statvfs(f"/proc/{self._inside}/root/{place}")
            except OSError:
                continue
            used += (space.f_blocks - space.f_bfree) * space.f_frsize
        return used


def taken_bytes(pids: list[int]) -> int:
    """Of these processes together, about: pages that some of them share are counted for each."""
    return _Taken([_shown_by(pid) for pid in pids], exact=False).total_bytes(0)


class _Nameless:
    """Open files that no directory shows."""

    __slots__ = ("disk_bytes", "memory_bytes")

    def __init__(self, *, memory_bytes: int, disk_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self.disk_bytes = disk_bytes


def _nameless(pids: Iterable[int], disk: int) -> _Nameless:
    seen: dict[tuple[int, int], int] = {}
    mounted: set[int] = set()  # memory file systems of the guest's: counted as a whole already
    for pid in pids:
        for place in MEMORY_FILES:
            found = _stat(f"/proc/{pid}/root/{place}")
            if found is not None:
                mounted.add(found.st_dev)
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        for name in names:
            found = _stat(f"/proc/{pid}/fd/{name}")
            if found is not None and not found.st_nlink and stat.S_ISREG(found.st_mode):
                seen[found.st_dev, found.st_ino] = found.st_blocks * 512
    return _Nameless(
        memory_bytes=sum(
            size for (device, _), size in seen.items() if device != disk and device not in mounted
        ),
        disk_bytes=sum(size for (device, _), size in seen.items() if device == disk),
    )


def _tree_bytes(folder: str) -> float:
    """By what is really there: a sparse file is small. Follows no link.

    Infinite where something cannot be looked at: what cannot be measured cannot be limited otherwise.
    """
    used = 0
    waiting = [folder]
    linked: set[int] = set()
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    found = entry.stat(follow_symlinks=False)
                    if found.st_nlink == 1 or found.st_ino not in linked:
                        used += found.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif found.st_nlink > 1:
                        linked.add(found.st_ino)
        except (FileNotFoundError, NotADirectoryError):
            continue  # gone meanwhile
        except OSError:
            return math.inf
    return used


def _shown_by(pid: int) -> int:
    """Which thread shows what a process has: the first one, until it ends. The others go on without it."""
    if _resident_bytes(pid):
        return pid
    try:
        threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return pid  # it ended meanwhile
    return next(filter(_resident_bytes, threads), pid)


def _resident_bytes(pid: int) -> int:
    """All it has in memory, also what it shares with everybody: never too little, and cheap to ask."""
    words = _read(f"/proc/{pid}/statm", STATM_BYTES).split()
    return int(words[1]) * PAGE_BYTES if len(words) > 1 else 0


def _read(path: str, most_bytes: int) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(file, most_bytes)
    except OSError:
        return b""  # it ended meanwhile
    finally:
        os.close(file)


def _fields(path: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in _read(path, FIELDS_BYTES).decode(errors="replace").splitlines())
    return {name: value.strip() for name, _, value in pairs}


def _kib(value: str) -> int:
    return int(value.split()[0]) * 1024


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
