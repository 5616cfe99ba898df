"""Files that need not be read again, since it is proven that they are what they were.

Size, inode and modification time tell a change, with two gaps that this closes. A file written through memory
(mmap) changes without a new time while its pages are dirty: so a file is trusted only after it was synced and
then read, since the next write to a clean page sets the time. And two changes within one tick of the clock
look the same: so the time must have been past for a while when the reading began. A file that was read once
is read once more, synced, before it is trusted; one that changes all the time never pays for a sync.

Whoever sets a file's time back by hand deceives its own checkpoint only.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

JOBS_MAX = 64  # forgetting one costs a reading
# FAT's clock ticks every two seconds, the coarsest that we know of.
TICK_NS = 2_000_000_000
# Where a write through memory to a clean page is known to set the time. Not tmpfs; of others we do not know.
HONEST_KINDS = {"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"}

Look = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    look: Look
    blocks: tuple[str, ...]
    proven: bool


@dataclass
class KnownFiles:
    """What one agent has read, in its memory: after a restart all is read again."""

    _jobs: OrderedDict[str, dict[str, Known]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, job_id: str, path: str, about: os.stat_result) -> Known | None:
        with self._lock:
            known = self._jobs.get(job_id, {}).get(path)
        return known if known is not None and known.look == look_of(about) else None

    def proven_blocks(self, job_id: str) -> set[str]:
        """Of all files of the job that are trusted as long as they look the same."""
        with self._lock:
            files = self._jobs.get(job_id, {}).values()
            return {name for known in files if known.proven for name in known.blocks}

    def learn(self, job_id: str, files: dict[str, Known]) -> None:
        with self._lock:
            self._jobs[job_id] = files
            self._jobs.move_to_end(job_id)
            while len(self._jobs) > JOBS_MAX:
                self._jobs.popitem(last=False)


def look_of(about: os.stat_result) -> Look:
    """Without the change time: setting a checkpoint aside by links changes that."""
    return (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)


def prove(descriptor: int, before: os.stat_result) -> bool:
    """Sync, so that a reading that begins now can be trusted later; False where that is not enough."""
    now_ns = time.time_ns()
    os.fsync(descriptor)
    about = os.fstat(descriptor)
    return (
        look_of(about) == look_of(before)
        and about.st_mtime_ns + TICK_NS < now_ns
        and kind_of(about.st_dev) in HONEST_KINDS
    )


@cache
def kind_of(device: int) -> str:
    """The file system's kind by its device number; empty when it is not known."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        mount, _, kind = line.partition(" - ")
        if mount.split()[2] == wanted:
            return kind.split()[0]
    return ""
