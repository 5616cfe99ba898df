"""Whose process is that? The guests' are known by their cgroup, their keeper or their mark; the rest is the
owner's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpunion.owner_kill.guest import guest_dirs, members
from gpunion.owner_kill.processes import start_ticks
from gpunion.ports.gpus import GpuProcess

# The kernel keeps this much of a process's name.
NAME_LENGTH = 15
# A guest that was ended may hold its GPU for a moment after its records are gone; its processes stay known as
# a guest's. Bounds the memory of an agent that lives for months.
REMEMBERED_MAX = 4096

Life = tuple[int, int]  # a process: its number and its start, since numbers are given again


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUser:
    pid: int
    name: str
    memory_bytes: int | None
    run_id: str | None  # None: the owner's
    ignored: bool = False  # the owner's, but not work: a display server

    @property
    def own_work(self) -> bool:
        return self.run_id is None and not self.ignored


class Attribution:
    """Ask from one thread at a time: it reads every process of the machine and remembers the guests'."""

    def __init__(self, state_dir: Path, ignore: Sequence[str]) -> None:
        self._state_dir = os.fspath(state_dir)
        self._ignore = {name[:NAME_LENGTH] for name in ignore}
        self._guests: dict[Life, str] = {}

    def users(self, processes: Iterable[GpuProcess]) -> tuple[GpuUser, ...]:
        """Those that still live. A number the driver names after its process's end is nobody."""
        living = [(process, start_ticks(process.pid)) for process in processes]
        lives = {(process.pid, ticks) for process, ticks in living if ticks is not None}
        if not lives <= self._guests.keys():
            self._learn()
        users = []
        for process, ticks in living:
            if ticks is None:
                continue
            name = process_name(process.pid)
            run_id = self._guests.get((process.pid, ticks))
            users.append(
                GpuUser(
                    pid=process.pid,
                    name=name,
                    memory_bytes=process.memory_bytes,
                    run_id=run_id,
                    ignored=run_id is None and name in self._ignore,
                )
            )
        return tuple(users)

    def _learn(self) -> None:
        for guest_dir in guest_dirs(self._state_dir):
            for life in members(guest_dir):
                self._guests.pop(life, None)  # to the end: what was seen last is forgotten last
                self._guests[life] = os.path.basename(guest_dir)
        for life in list(self._guests)[:-REMEMBERED_MAX]:
            del self._guests[life]


def process_name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "?"
