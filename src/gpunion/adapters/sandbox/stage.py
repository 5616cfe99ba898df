"""For an agent that runs as root: gives a guest a user of its own outside the sandbox as well.

Bubblewrap maps the guest to whoever starts it. Started by root, the guest would be root to everything the
host shows it: it could set the kernel's variables under /proc/sys and change the mode of /dev/null. So it is
started by a user that owns nothing but the guest's directories. That user may not reach those directories
(nor a Python in somebody's home) by their paths; they are bound under a stage first, in a mount namespace
that nobody else sees.
"""

from __future__ import annotations

import ctypes
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the keeper imports this module and starts in a hurry
    from gpunion.ports.runtime import GuestPaths

# From the range that Linux distributions assign to nobody (60706-61183); none has a name or a home.
GUEST_IDS = range(60_706, 60_990)  # one a guest, see `users`
SHARED_GUEST_ID = 60_990  # for all guests of an engine that cannot tell them apart, and for trying things out
STAGE = "/tmp"  # exists everywhere, and is covered by the stage in that one namespace only

CLONE_NEWNS = 0x00020000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
NEEDED_CAPABILITIES = {"chown": 0, "setgid": 6, "setuid": 7, "sys_admin": 21}

_libc = ctypes.CDLL(None, use_errno=True)


def lacking() -> tuple[str, ...]:
    """What this process, being root, would need and does not have; root in a container often lacks it."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        mask = next((int(line.split()[1], 16) for line in file if line.startswith("CapEff:")), 0)
    return tuple(name for name, bit in NEEDED_CAPABILITIES.items() if not mask >> bit & 1)


def hand_over(directory: str, user: int) -> None:
    """Make the guest's user the owner of a directory and all in it, before it runs. Follows no link."""
    os.chown(directory, user, user, follow_symlinks=False)
    for _, folders, files, descriptor in os.fwalk(directory, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, user, user, dir_fd=descriptor, follow_symlinks=False)


def hand_over_all(paths: GuestPaths, user: int) -> None:
    for path in (paths.checkpoint_dir, paths.control_dir, paths.output_dir, paths.scratch_dir):
        hand_over(str(path), user)


def set_stage(sources: list[str]) -> list[str]:
    """Bind each source where the guest's user can reach it; returns those places. For the child only."""
    if _libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "cannot make a mount namespace")
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    # Opened before the stage covers what lies under it.
    opened = [os.open(source, os.O_PATH) for source in sources]
    _mount("stage", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755")
    places = []
    for number, descriptor in enumerate(opened):
        place = f"{STAGE}/{number}"
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.mkdir(place)
        else:
            os.close(os.open(place, os.O_WRONLY | os.O_CREAT, 0o644))
        _mount(f"/proc/self/fd/{descriptor}", place, None, MS_BIND | MS_REC)
        os.close(descriptor)
        places.append(place)
    return places


def become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind)]
    data = None if options is None else options.encode()
    if _libc.mount(*words, ctypes.c_ulong(flags), data) != 0:
        raise OSError(ctypes.get_errno(), f"cannot mount {target}")
