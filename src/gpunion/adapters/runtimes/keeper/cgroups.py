"""A guest's own cgroup (version 2), where the system lets us make one.

The unified tree may be the only one (`/sys/fs/cgroup`) or stand beside the old controllers
(`/sys/fs/cgroup/unified`); in the second case it usually has no controllers, so that a guest can be killed
as one but its memory and CPU are not limited.
"""

from __future__ import annotations

import contextlib
import os

from gpunion.owner_kill.processes import remove_cgroup

MOUNTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
MEMORY = "memory"
WANTED_CONTROLLERS = (MEMORY, "cpu", "pids")
AGENT_SUBGROUP = "agent"  # as the unit of `gpunion agent install` names it
TOP_GROUP = "gpunion"
MAKE_TRIES = 5
CPU_PERIOD_US = 100_000  # the kernel's default
PROCESSES_MAX = 8192  # a data loader has dozens, a fork bomb has no end


def survey() -> tuple[str, frozenset[str]]:
    """Where guests' cgroups can be made, and which controllers limit them. Whoever only looks leaves nothing:
    the place at the top is made again for the first guest."""
    for _ in range(MAKE_TRIES):
        parent = find_parent()
        limited = controllers(parent)
        if limited or os.path.basename(parent) != TOP_GROUP:
            break  # else another one who looked has just taken it along
    remove_top()
    return parent, limited


def find_parent() -> str:
    """Where guests' cgroups can be made; "" when that is not possible.

    The kernel limits the memory of a cgroup's children only while it has no processes of its own. So it is
    the level above an agent that its service has put one level deeper. An agent of root without such a
    service (started by hand, or by a systemd that cannot do that) takes a cgroup at the top for its guests.
    Else it is the agent's own, with fewer limits.
    """
    mount = next((path for path in MOUNTS if os.path.exists(os.path.join(path, "cgroup.procs"))), "")
    if not mount:
        return ""
    own = os.path.normpath(mount + "/" + _own_path())
    parent = os.path.dirname(own) if os.path.basename(own) == AGENT_SUBGROUP else own
    if MEMORY not in controllers(parent) and os.geteuid() == 0 and MEMORY in controllers(mount):
        top = os.path.join(mount, TOP_GROUP)
        parent = top if os.path.isdir(top) or make(mount, TOP_GROUP) else parent
    return parent if _can_make_in(parent) else ""


def remove_top() -> None:
    """When nobody on this machine has guests there any more."""
    for mount in MOUNTS:
        with contextlib.suppress(OSError):
            os.rmdir(os.path.join(mount, TOP_GROUP))


def controllers(parent: str) -> frozenset[str]:
    """Which of the wanted controllers limit a cgroup made under `parent`."""
    if not parent:
        return frozenset()
    for name in WANTED_CONTROLLERS:
        _write(os.path.join(parent, "cgroup.subtree_control"), f"+{name}")
    try:
        with open(os.path.join(parent, "cgroup.subtree_control"), encoding="ascii") as file:
            return frozenset(file.read().split()) & frozenset(WANTED_CONTROLLERS)
    except OSError:
        return frozenset()


def make(parent: str, name: str) -> str:
    """The path of a new cgroup, or "" when the system refuses."""
    path = os.path.join(parent, name)
    for _ in range(MAKE_TRIES):
        with contextlib.suppress(OSError):
            os.mkdir(path)
            return path
        if os.path.basename(parent) != TOP_GROUP:
            return ""
        # Whoever leaves this machine, or looks at it, takes an empty one along, maybe in this very moment.
        with contextlib.suppress(OSError):
            os.mkdir(parent)
            controllers(parent)
    return ""


def _can_make_in(parent: str) -> bool:
    probe = make(parent, f"gpunion-probe-{os.getpid()}")
    if probe:
        remove_cgroup(probe)
    return bool(probe)


def limit(cgroup: str, *, memory_bytes: int, cpus: float, processes_max: int) -> None:
    """Limits whose controller is absent are left unenforced; `describe()` of the runtime says which."""
    if memory_bytes > 0:
        _write(os.path.join(cgroup, "memory.max"), str(memory_bytes))
        _write(os.path.join(cgroup, "memory.oom.group"), "1")
    if cpus > 0:
        limit_cpus(cgroup, cpus)
    _write(os.path.join(cgroup, "pids.max"), str(processes_max))


def limit_cpus(cgroup: str, cpus: float) -> None:
    """0: every core there is."""
    share = int(cpus * CPU_PERIOD_US) if cpus > 0 else "max"
    _write(os.path.join(cgroup, "cpu.max"), f"{share} {CPU_PERIOD_US}")


def enter(cgroup: str) -> None:
    """Move the calling process in."""
    _write(os.path.join(cgroup, "cgroup.procs"), "0")


def processes(cgroup: str) -> set[int]:
    """Those in the cgroup itself: a guest in a sandbox cannot make another in it."""
    try:
        with open(os.path.join(cgroup, "cgroup.procs"), encoding="ascii") as file:
            return {int(line) for line in file}
    except OSError:
        return set()


def ran_out_of_memory(cgroup: str) -> bool:
    try:
        with open(os.path.join(cgroup, "memory.events"), encoding="ascii") as file:
            counts = dict(line.split() for line in file)
    except (OSError, ValueError):
        return False
    return int(counts.get("oom_kill", "0")) > 0


def _own_path() -> str:
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        return next((line.strip().removeprefix("0::") for line in file if line.startswith("0::")), "/")


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError:
        return
