"""What CRIU is told beside what Podman and runc tell it, in a file of the guest's own.

On cgroup version 2 runc leaves it to CRIU where the processes go, and CRIU puts them where they were: into
the cgroup of the container that was dumped, which has no limits and is nobody's any more. So CRIU is told the
new container's cgroup, in which runc has put CRIU itself. (On version 1 runc tells it.) Standard library
only, for keepers.
"""

from __future__ import annotations

import os

SETTINGS_FILE = "criu.conf"
ANNOTATION = "org.criu.config"  # runc and crun have CRIU read the file that it names
# The file they name when no annotation does: what this machine's administrator wants of CRIU.
MACHINE_SETTINGS = "/etc/criu/runc.conf"
CGROUPS_OF = "/proc/{pid}/cgroup"


def with_settings(create: list[str], guest_dir: str) -> list[str]:
    """`create` words of a container that is to be restored. CRIU passes over a file that is not there."""
    verb, *rest = create
    return [verb, "--annotation", f"{ANNOTATION}={os.path.join(guest_dir, SETTINGS_FILE)}", *rest]


def tell_criu(guest_dir: str, cgroup: str, machine_settings: str = MACHINE_SETTINGS) -> None:
    """Before a restore. `cgroup`: see `only_cgroup`; empty where CRIU is told nothing more."""
    try:
        with open(machine_settings, "rb") as file:  # as it is: people write comments in any encoding
            text = file.read().rstrip(b"\n")
    except OSError:
        text = b""
    lines = [text, os.fsencode(f"cgroup-root {cgroup}") if cgroup else b""]
    with open(os.path.join(guest_dir, SETTINGS_FILE), "wb") as file:
        file.write(b"".join(line + b"\n" for line in lines if line))


def only_cgroup(pid: int) -> str:
    """The cgroup of a process where there is but one tree of them, as the kernel names it; else empty."""
    try:
        with open(CGROUPS_OF.format(pid=pid), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    return lines[0].removeprefix("0::") if len(lines) == 1 and lines[0].startswith("0::/") else ""
