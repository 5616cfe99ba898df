"""Processes and cgroups as the kernel shows them.

A process is known by its pid and its start time together, so that a pid given to somebody else is never
touched.
"""

from __future__ import annotations

import errno
import os
import signal
import time

# Of /proc/<pid>/stat, counted after the name.
STATE_FIELD, PARENT_FIELD, THREADS_FIELD, START_FIELD = 0, 1, 17, 19

CGROUP_BUSY_S = 0.5  # a killed process stays in its cgroup until the kernel has taken it apart


def process_table() -> dict[int, tuple[int, int]]:
    """pid -> (parent, start ticks) of every living process; zombies hold nothing and are left out."""
    table: dict[int, tuple[int, int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat_fields(int(name))
            if fields is not None:
                table[int(name)] = (int(fields[PARENT_FIELD]), int(fields[START_FIELD]))
    return table


def descendants(ancestor: int, table: dict[int, tuple[int, int]]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    waiting = [ancestor]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def family(first: tuple[int, int], table: dict[int, tuple[int, int]]) -> set[int]:
    """A process, known by its pid and start ticks, and all that descend from it; nobody once it is dead."""
    pid, ticks = first
    if not pid or pid not in table or table[pid][1] != ticks:
        return set()
    return {pid} | descendants(pid, table)


def start_ticks(pid: int) -> int | None:
    """When a living process started, in clock ticks since boot; None when there is none."""
    fields = _stat_fields(pid)
    return None if fields is None else int(fields[START_FIELD])


def _stat_fields(pid: int) -> list[bytes] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    # A process whose first thread alone has ended looks like a zombie, and goes on.
    dead = not fields or (fields[STATE_FIELD] in (b"Z", b"X") and int(fields[THREADS_FIELD]) < 2)
    return None if dead else fields


def send_signal(pid: int, ticks: int, signum: int) -> None:
    """Signal exactly that process: the descriptor is opened first, then the start time compared."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if start_ticks(pid) == ticks:
            signal.pidfd_send_signal(descriptor, signum)
    except OSError:
        return  # gone meanwhile, or not ours to signal: the caller looks again at what lives
    finally:
        os.close(descriptor)


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def remove_cgroup(cgroup: str) -> None:
    """Remove a guest's cgroup and those the guest made in it. One that stays busy stays."""
    for directory, _, _ in os.walk(cgroup, topdown=False):
        give_up_s = time.monotonic() + CGROUP_BUSY_S
        while not _remove_directory(directory):
            if time.monotonic() > give_up_s:
                return
            time.sleep(CGROUP_BUSY_S / 100)


def _remove_directory(path: str) -> bool:
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError as error:
        return error.errno != errno.EBUSY
    return True


def cgroup_pids(cgroup: str) -> set[int]:
    pids: set[int] = set()
    for directory, _, _ in os.walk(cgroup) if cgroup else ():
        try:
            with open(os.path.join(directory, "cgroup.procs"), encoding="ascii") as file:
                pids.update(int(line) for line in file)
        except OSError:
            continue
    return pids


def environment(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


def thaw(pids: set[int]) -> None:
    """For what version 1 of cgroups holds frozen: it does not see that it was killed before it goes on."""
    files: set[str] = set()
    for pid in pids:
        try:
            with open(f"/proc/{pid}/cgroup", encoding="ascii", errors="replace") as file:
                paths = [line.rstrip().split(":", 2)[2] for line in file if ":freezer:" in line]
        except OSError:
            continue
        files.update(f"/sys/fs/cgroup/freezer{path}/freezer.state" for path in paths if path != "/")
    for path in files:
        try:
            with open(path, "w", encoding="ascii") as file:
                file.write("THAWED")
        except OSError:
            continue


def kill_cgroup(cgroup: str) -> None:
    try:
        with open(os.path.join(cgroup, "cgroup.kill"), "w", encoding="ascii") as file:
            file.write("1")
    except OSError:
        return  # no such cgroup, or a kernel before 5.14: the processes are struck one by one as well
