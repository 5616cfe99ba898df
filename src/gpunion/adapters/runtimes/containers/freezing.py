"""Guests in containers that are made to stand still, with more memory while they do."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

from gpunion.adapters.runtimes.containers.freezer import freezer_of
from gpunion.adapters.runtimes.keeper.cgroups import CPU_PERIOD_US
from gpunion.adapters.runtimes.keeper.freezer import FREEZE_LIMIT_S, GuestFreezer
from gpunion.adapters.runtimes.keeper.names import EXTRA_MEMORY_FILE, LAUNCH_FILE
from gpunion.files import read_json, write_json
from gpunion.owner_kill.guest import container_members, read_keeper
from gpunion.ports.parking import CannotFreeze

UNIFIED = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
OLD_TREE = "/sys/fs/cgroup"
MEMORY, CPU = "memory", "cpu"
UNIFIED_LIMITS = {MEMORY: ("memory.max",), CPU: ("cpu.max",)}
OLD_LIMITS = {
    MEMORY: ("memory.memsw.limit_in_bytes", "memory.limit_in_bytes"),
    CPU: ("cpu.cfs_quota_us",),
}
INNER_LEVEL = "container"  # crun's, where systemd keeps its cgroups
# A limit below what is in use is refused by the old tree: what was just given back may still be counted.
LOWER_TRIES, LOWER_PAUSE_S = 20, 0.1


class ContainerFreezer(GuestFreezer):
    """Implements `ports.parking.Freezer`. Its processes are those of its container: the others that its
    keeper has are of the engine, and must go on. Where it has no cgroup of its own the one it is in is not
    touched: it has the agent in it as well."""

    def _members(self, root: str) -> set[tuple[int, int]]:
        return container_members(root)

    def _has_cgroup(self, run_id: str) -> bool:
        keeper = read_keeper(self._root(run_id))
        return keeper is not None and bool(keeper.cgroup)

    def stretch(self, run_id: str, extra_bytes: int) -> None:
        root = self._root(run_id)
        write_json(os.path.join(root, EXTRA_MEMORY_FILE), {"extra_bytes": extra_bytes}, durable=False)
        launch = read_json(os.path.join(root, LAUNCH_FILE)) or {}
        memory_bytes, cpus = int(str(launch.get("memory_bytes", 0))), float(str(launch.get("cpus", 0)))
        pids = self.processes(run_id) if self._has_cgroup(run_id) else frozenset()
        files = limits_of(pids, MEMORY) if memory_bytes > 0 else []
        # The wider (an outer cgroup, or with swap) is never less than the narrower: up first, and down last.
        for path in files if extra_bytes > 0 else reversed(files):
            _set_limit(path, str(memory_bytes + extra_bytes))
        for path in limits_of(pids, CPU) if cpus > 0 else []:
            _set_limit(path, cpu_words(path, 0.0 if extra_bytes > 0 else cpus))

    def freeze(self, run_id: str) -> None:
        if not self._has_cgroup(run_id):
            super().freeze(run_id)
            return
        pids = self.processes(run_id)
        freezer = freezer_of(min(pids)) if pids else None
        if freezer is None:
            raise CannotFreeze("it has no cgroup of its own that could be frozen")
        try:
            stands_still = freezer.freeze(FREEZE_LIMIT_S)
        except OSError as error:
            raise CannotFreeze(f"its cgroup cannot be frozen: {error}") from error
        if not stands_still:
            raise CannotFreeze(f"its processes did not stand still within {FREEZE_LIMIT_S:g} s")

    def thaw(self, run_id: str) -> None:
        if not self._has_cgroup(run_id):
            super().thaw(run_id)
            return
        pids = self.processes(run_id)
        freezer = freezer_of(min(pids)) if pids else None
        if freezer is not None:
            freezer.thaw()


def limits_of(pids: frozenset[int], controller: str) -> list[str]:
    """The files that limit these processes and nobody else, the widest first."""
    lines = _lines(f"/proc/{min(pids)}/cgroup") if pids else []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if path == "/":
            continue
        if controller in controllers.split(","):
            return _there(f"{OLD_TREE}/{controllers}{path}", OLD_LIMITS[controller])
        mount = next((mount for mount in UNIFIED if not controllers and os.path.isdir(f"{mount}{path}")), "")
        names = UNIFIED_LIMITS[controller]
        found = [file for level in _levels(path) for file in _there(f"{mount}{level}", names)]
        if mount and found:
            return found
    return []


def cpu_words(path: str, cpus: float) -> str:
    """What is written to say so many cores; 0: every one."""
    if path.endswith("cpu.max"):
        return f"{int(cpus * CPU_PERIOD_US) if cpus > 0 else 'max'} {CPU_PERIOD_US}"
    return str(int(cpus * CPU_PERIOD_US)) if cpus > 0 else "-1"


def _levels(path: str) -> list[str]:
    """The cgroup of a container, outermost first: an engine may put its processes one level deeper."""
    outer = os.path.dirname(path)
    return [outer, path] if os.path.basename(path) == INNER_LEVEL else [path]


def _there(folder: str, names: tuple[str, ...]) -> list[str]:
    return [file for name in names if os.path.exists(file := os.path.join(folder, name))]


def _set_limit(path: str, words: str) -> None:
    for _ in range(LOWER_TRIES):
        try:
            Path(path).write_text(words, encoding="ascii")
            return
        except OSError as error:
            if error.errno != errno.EBUSY:
                return  # not ours to set; the guest lives with what it was granted
            time.sleep(LOWER_PAUSE_S)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
