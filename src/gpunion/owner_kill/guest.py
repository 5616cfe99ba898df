"""One guest's processes: how they are found, and how they are ended.

They are found in four ways, since a guest may try to hide them: its cgroup, the descendants of its keeper
(orphans come back to the keeper, a subreaper), those of its container's first process (orphans come back to
that one, and none outlives it), and a mark in the environment.
"""

from __future__ import annotations

import os
import signal

from gpunion.files import read_json, write_json
from gpunion.owner_kill.processes import (
    boot_id,
    cgroup_pids,
    descendants,
    environment,
    family,
    kill_cgroup,
    process_table,
    remove_cgroup,
    send_signal,
    start_ticks,
    thaw,
)

GUESTS_DIR = "guests"
KEEPER_FILE = "keeper.json"
LIMITS_FILE = "limits.json"  # until when it may live, by the clock that runs from boot
KILL_FILE = "kill.json"
EXIT_FILE = "exit.json"
MARK_VARIABLE = "GPUNION_GUEST_MARK"

KILLED_BY_OWNER = "killed_by_owner"
KILLED_EXIT_CODE = 128 + signal.SIGKILL


class Keeper:
    """What a keeper wrote about itself before it started its guest."""

    __slots__ = ("boot_id", "cgroup", "first", "mark", "pid", "start_ticks")

    def __init__(
        self, pid: int, start_ticks: int, boot_id: str, cgroup: str, mark: str, first: tuple[int, int]
    ) -> None:
        self.pid = pid
        self.start_ticks = start_ticks
        self.boot_id = boot_id
        self.cgroup = cgroup
        self.mark = mark
        self.first = first  # (pid, start ticks) of its container's first process; zeros: it has none

    def alive(self) -> bool:
        return self.boot_id == boot_id() and start_ticks(self.pid) == self.start_ticks


def guest_dirs(state_dir: str) -> list[str]:
    guests = os.path.join(state_dir, GUESTS_DIR)
    try:
        names = sorted(os.listdir(guests))
    except FileNotFoundError:
        return []
    return [os.path.join(guests, name) for name in names if not name.startswith(".")]


def read_keeper(guest_dir: str) -> Keeper | None:
    """Who keeps the guest; None when it was never started."""
    record = read_json(os.path.join(guest_dir, KEEPER_FILE))
    if record is None:
        return None
    return Keeper(
        int(str(record["pid"])),
        int(str(record["start_ticks"])),
        str(record["boot_id"]),
        str(record["cgroup"]),
        str(record["mark"]),
        (int(str(record.get("first_pid", 0))), int(str(record.get("first_ticks", 0)))),
    )


def lives(guest_dir: str) -> bool:
    keeper = read_keeper(guest_dir)
    if keeper is None:
        return False
    if keeper.alive():
        return True
    # The end is only ever recorded when nothing lives, so an old guest costs no look at every process.
    return not os.path.exists(os.path.join(guest_dir, EXIT_FILE)) and bool(members(guest_dir))


def ends_by_s(guest_dir: str) -> float | None:
    """When its keeper ends it if no agent comes; None where no agent has said so yet."""
    limits = read_json(os.path.join(guest_dir, LIMITS_FILE)) or {}
    moments = [limits.get("lease_until_s"), limits.get("kill_at_s")]
    return min((float(at_s) for at_s in moments if isinstance(at_s, int | float)), default=None)


def members(guest_dir: str) -> set[tuple[int, int]]:
    """(pid, start ticks) of every living process of the guest, without its keeper."""
    keeper = read_keeper(guest_dir)
    if keeper is None or keeper.boot_id != boot_id():
        return set()
    table = process_table()
    pids = {pid for pid in cgroup_pids(keeper.cgroup) if pid in table} | family(keeper.first, table)
    if keeper.alive():
        pids |= descendants(keeper.pid, table)
    elif keeper.mark:
        # Without its keeper a guest's orphans belong to init: the mark in their environment is what is left.
        needle = f"{MARK_VARIABLE}={keeper.mark}".encode()
        pids |= {pid for pid in table if needle in environment(pid)}
    return {(pid, table[pid][1]) for pid in pids if pid != keeper.pid}


def container_members(guest_dir: str) -> set[tuple[int, int]]:
    """Those inside its container: not what its keeper has beside it, an engine's client or a doorman."""
    keeper = read_keeper(guest_dir)
    if keeper is None or keeper.boot_id != boot_id():
        return set()
    table = process_table()
    pids = cgroup_pids(keeper.cgroup) if keeper.cgroup else family(keeper.first, table)
    return {(pid, table[pid][1]) for pid in pids if pid in table}


def strike(guest_dir: str, *, keeper_too: bool) -> None:
    """Kill what is seen of the guest now. The keeper goes last: without it orphans are harder to find."""
    keeper = read_keeper(guest_dir)
    if keeper is None:
        return
    if keeper.cgroup and keeper.boot_id == boot_id():
        kill_cgroup(keeper.cgroup)
    found = members(guest_dir)
    for pid, ticks in found:
        send_signal(pid, ticks, signal.SIGKILL)
    thaw({pid for pid, _ in found})
    if keeper_too and keeper.alive():
        send_signal(keeper.pid, keeper.start_ticks, signal.SIGKILL)


def note_kill(guest_dir: str, reason: str) -> None:
    """Leave word for the keeper why its guest dies. The first reason stands."""
    path = os.path.join(guest_dir, KILL_FILE)
    if not os.path.exists(path):
        try:
            write_json(path, {"reason": reason}, durable=False)
        except OSError:
            return  # a full disk must not save a guest; only its reason is lost


def clear_cgroup(guest_dir: str) -> None:
    """Remove the cgroup of a guest that no longer lives, whoever ended it."""
    keeper = read_keeper(guest_dir)
    if keeper is not None and keeper.cgroup and not keeper.alive():
        remove_cgroup(keeper.cgroup)


def settle(guest_dir: str, reason: str) -> None:
    """Record the end of a guest whose keeper could not, and remove its empty cgroup."""
    clear_cgroup(guest_dir)
    path = os.path.join(guest_dir, EXIT_FILE)
    if not os.path.exists(path):
        try:
            write_json(path, {"exit_code": KILLED_EXIT_CODE, "reason": reason})
        except OSError:
            return
