"""What a guest has taken of its host by its end: processor time, and the most memory at once.

Memory is what cannot be taken from it again: its own pages and files in memory, not what the kernel keeps of
files it read. It is looked at once a second, so a shorter peak may be missed. Standard library only: a keeper
starts in a hurry.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterable

from gpunion.adapters.runtimes.keeper.resources.appetite import STRETCH_MAX_S, Pace, taken_bytes

LOOK_S = (1.0, STRETCH_MAX_S)
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Of /proc/<pid>/stat, counted after the name: own time, and that of children that were waited for.
TIME_FIELDS = slice(11, 15)
OF_ITS_OWN = ("anon", "shmem", "kernel_stack", "pagetables")


class MeasuredUse:
    """One guest's. `parents_it`: all that the keeper waits for is the guest."""

    def __init__(self, pids: Callable[[], Iterable[int]], *, parents_it: bool) -> None:
        self._pids = pids
        self._parents_it = parents_it
        self._pace = Pace(LOOK_S)
        self._began_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._memory_bytes = 0
        self._cpu_s = 0.0

    def look(self, now_s: float, cgroup: str, *, parked: bool = False) -> None:
        """To be asked often; looks when it is time to. While it is parked, its GPUs' memory is in its own."""
        if parked or not self._pace.due(now_s):
            return
        began_s = time.monotonic()
        found = _by_cgroup(cgroup)
        memory_bytes, cpu_s = found if found is not None else self._by_processes()
        self._memory_bytes = max(self._memory_bytes, memory_bytes)
        self._cpu_s = max(self._cpu_s, cpu_s)
        self._pace.took(now_s, time.monotonic() - began_s)

    def record(self, cgroup: str, *, at_least_bytes: int = 0) -> dict[str, object]:
        """At its end, before its cgroup is removed."""
        found = _by_cgroup(cgroup)
        if found is not None:
            self._cpu_s = max(self._cpu_s, found[1])
        elif self._parents_it:
            self._cpu_s = max(self._cpu_s, _waited_for_s())
        if self._parents_it and not self._memory_bytes:  # it ended before anybody looked
            self._memory_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        return {
            "for_s": time.clock_gettime(time.CLOCK_BOOTTIME) - self._began_s,
            "cpu_s": self._cpu_s,
            "memory_bytes": max(self._memory_bytes, at_least_bytes),
        }

    def _by_processes(self) -> tuple[int, float]:
        pids = list(self._pids())
        times_s = sum(map(_cpu_s, pids))
        return taken_bytes(pids), times_s + (_waited_for_s() if self._parents_it else 0.0)


def _by_cgroup(cgroup: str) -> tuple[int, float] | None:
    """Of its own and those below; None where the kernel does not count both there."""
    if not cgroup:
        return None
    memory, cpu = _counts(f"{cgroup}/memory.stat"), _counts(f"{cgroup}/cpu.stat")
    if "anon" not in memory or "usage_usec" not in cpu:
        return None
    swapped = _counts(f"{cgroup}/memory.swap.current").get("", 0)
    return sum(memory.get(name, 0) for name in OF_ITS_OWN) + swapped, cpu["usage_usec"] / 1e6


def _counts(path: str) -> dict[str, int]:
    """Lines of a name and a number; a number alone has no name."""
    found: dict[str, int] = {}
    try:
        with open(path, encoding="ascii") as file:
            for line in file:
                name, _, number = line.rstrip("\n").rpartition(" ")
                found[name] = int(number)
    except (OSError, ValueError):
        return {}
    return found


def _cpu_s(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return sum(map(int, fields[TIME_FIELDS])) / TICKS_PER_S
    except (OSError, ValueError):
        return 0.0  # it ended meanwhile: whoever waited for it has its time


def _waited_for_s() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime
