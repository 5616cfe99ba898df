"""Guests that are made to stand still as one: by their cgroup, or process by process where there is none."""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path

from gpunion.adapters.runtimes.keeper import cgroups
from gpunion.adapters.runtimes.keeper.guest_dir import guest_root
from gpunion.adapters.runtimes.keeper.names import EXTRA_MEMORY_FILE, LAUNCH_FILE, PARKED_FILE
from gpunion.files import read_json, write_json
from gpunion.owner_kill.guest import members, read_keeper
from gpunion.owner_kill.processes import send_signal
from gpunion.ports.parking import CannotFreeze, ParkNote

FREEZE_LIMIT_S = 5.0  # a process that waits for a disk or a driver stops when that answers
LOOK_S = 0.01
STOPPED = ("T", "t", "Z", "X")


class GuestFreezer:
    """Implements `ports.parking.Freezer` for guests that a keeper keeps."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def processes(self, run_id: str) -> frozenset[int]:
        return frozenset(pid for pid, _ in self._members(self._root(run_id)))

    def stretch(self, run_id: str, extra_bytes: int) -> None:
        root = self._root(run_id)
        write_json(os.path.join(root, EXTRA_MEMORY_FILE), {"extra_bytes": extra_bytes}, durable=False)
        keeper = read_keeper(root)
        launch = read_json(os.path.join(root, LAUNCH_FILE)) or {}
        if keeper is not None and keeper.cgroup:
            memory_bytes, cpus = int(str(launch.get("memory_bytes", 0))), float(str(launch.get("cpus", 0)))
            if memory_bytes > 0:
                _write(os.path.join(keeper.cgroup, "memory.max"), str(memory_bytes + extra_bytes))
            cgroups.limit_cpus(keeper.cgroup, 0.0 if extra_bytes > 0 else cpus)
        if extra_bytes > 0:
            for pid in self.processes(run_id):
                _lift_data_limit(pid)

    def freeze(self, run_id: str) -> None:
        root = self._root(run_id)
        until_s = time.monotonic() + FREEZE_LIMIT_S
        while True:
            if not self._freeze_cgroup(root, "1"):
                for pid, ticks in self._members(root):
                    send_signal(pid, ticks, signal.SIGSTOP)
            if self._stands_still(root):
                return
            if time.monotonic() > until_s:
                self.thaw(run_id)
                raise CannotFreeze(f"its processes did not stand still within {FREEZE_LIMIT_S:g} s")
            time.sleep(LOOK_S)

    def thaw(self, run_id: str) -> None:
        root = self._root(run_id)
        if not self._freeze_cgroup(root, "0"):
            for pid, ticks in self._members(root):
                send_signal(pid, ticks, signal.SIGCONT)

    def note(self, run_id: str) -> ParkNote | None:
        record = read_json(os.path.join(self._root(run_id), PARKED_FILE))
        if record is None:
            return None
        pids = record["pids"]
        return ParkNote(
            pids=tuple(int(str(pid)) for pid in pids) if isinstance(pids, list) else (),
            moved_bytes=int(str(record["moved_bytes"])),
            took_s=float(str(record["took_s"])),
            frozen=bool(record["frozen"]),
        )

    def write_note(self, run_id: str, note: ParkNote | None) -> None:
        path = os.path.join(self._root(run_id), PARKED_FILE)
        if note is None:
            Path(path).unlink(missing_ok=True)
            return
        record: dict[str, object] = {
            "pids": list(note.pids),
            "moved_bytes": note.moved_bytes,
            "took_s": note.took_s,
            "frozen": note.frozen,
        }
        write_json(path, record)

    def _members(self, root: str) -> set[tuple[int, int]]:
        return members(root)

    def _root(self, run_id: str) -> str:
        return str(guest_root(self._state_dir, run_id))

    def _freeze_cgroup(self, root: str, word: str) -> bool:
        keeper = read_keeper(root)
        if keeper is None or not keeper.cgroup:
            return False
        return _write(os.path.join(keeper.cgroup, "cgroup.freeze"), word)

    def _stands_still(self, root: str) -> bool:
        keeper = read_keeper(root)
        if keeper is not None and keeper.cgroup:
            events = _read(os.path.join(keeper.cgroup, "cgroup.events"))
            if "frozen" in events:
                return "frozen 1" in events
        return all(_state_of(pid) in STOPPED for pid, _ in self._members(root))


def _lift_data_limit(pid: int) -> None:
    """Host memory for what was on the GPU is the process's own. Not allowed: the driver will say so."""
    try:
        endless = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(pid, resource.RLIMIT_DATA, endless)
    except (OSError, ValueError):
        return


def _state_of(pid: int) -> str:
    return _read(f"/proc/{pid}/stat").rpartition(")")[2].strip()[:1] or "X"


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, text: str) -> bool:
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError:
        return False
    return True
