"""Where an engine has put a container in the host's cgroups. Standard library only: the keeper reads it."""

from __future__ import annotations

import os

# The tree in which a whole guest can be killed at once comes first: alone (version 2) or beside the old ones.
UNIFIED = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
OLD_TREE = "/sys/fs/cgroup"


def container_cgroup(pid: int, container_id: str) -> str:
    """The directory of the cgroup that `pid` is in because of its container; "" when there is none.

    Only one that bears the container's id: any other holds processes that are not the guest's.
    """
    for line in _lines(f"/proc/{pid}/cgroup"):
        _, controllers, path = line.split(":", 2)
        mounts = UNIFIED if not controllers else [f"{OLD_TREE}/{controllers.removeprefix('name=')}"]
        for mount in mounts:
            directory = _bearing(os.path.normpath(f"{mount}/{path}"), container_id)
            if directory and str(pid) in _processes(directory):
                return directory
    return ""


def out_of_memory_file(pid: int, container_id: str) -> str:
    """Where the kernel counts the processes it killed for want of memory; "" when it does not."""
    for line in _lines(f"/proc/{pid}/cgroup"):
        _, controllers, path = line.split(":", 2)
        if not controllers:
            places = [f"{mount}/{path}/memory.events" for mount in UNIFIED]
        elif "memory" in controllers.split(","):
            places = [f"{OLD_TREE}/{controllers}/{path}/memory.oom_control"]
        else:
            continue
        for place in map(os.path.normpath, places):
            if container_id in place and os.path.exists(place):
                return place
    return ""


def killed_for_memory(file: str) -> bool:
    counts = dict(line.split(maxsplit=1) for line in _lines(file) if " " in line)
    return counts.get("oom_kill", "0") != "0"


def _bearing(directory: str, container_id: str) -> str:
    """Cut to the part that bears the id: an engine may put its processes one level deeper."""
    parts = directory.split("/")
    for depth, part in enumerate(parts):
        if container_id in part:
            return "/".join(parts[: depth + 1])
    return ""


def _processes(directory: str) -> set[str]:
    found: set[str] = set()
    for folder, _, _ in os.walk(directory):
        found.update(_lines(os.path.join(folder, "cgroup.procs")))
    return found


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as file:
            # The unified tree's line is the last one, and the one we want.
            return file.read().splitlines()[::-1]
    except OSError:
        return []
