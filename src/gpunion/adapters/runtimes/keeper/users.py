"""For an agent that runs as root: each guest is a user that no other guest on this machine is.

Guests that were one user would share its number of processes, so that one guest's fork bomb kept the others
from starting, and nothing but their namespaces would keep one from ending or reading another's processes.

Several agents may share a machine, so who has which user is noted where all of them look: a link a user,
named by it, to the guest's directory. A reboot clears the notes, and has ended the guests. A link to nothing
is of a guest that was removed by somebody else, and counts no more.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import stat
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpunion.owner_kill.guest import EXIT_FILE
from gpunion.ports.runtime import RuntimeFault

CLAIMS = Path("/run/gpunion-guests")
# From its claim to its first process a guest takes seconds; what is nobody's after this long has ended.
STARTED_BY_S = 600.0


class GuestUsers:
    """Which guest is which user, for all agents of root on this machine."""

    def __init__(
        self, claims: Path = CLAIMS, living_users: Callable[[], Collection[int]] = lambda: living_users()
    ) -> None:
        self._claims = claims
        self._living_users = living_users

    def claim(self, root: Path, wanted: int | None = None) -> int:
        """A user for the guest with this directory until it is given back; again: the same one.

        `wanted`: that one and no other. RuntimeFault while another guest or any process on the machine is it.
        """
        with self._locked():
            held = self._held()
            if root in held:
                return held[root]
            user = self._free(held) if wanted is None else self._that_one(held, wanted)
            (self._claims / str(user)).unlink(missing_ok=True)
            os.symlink(root, self._claims / str(user))
            return user

    def give_back(self, root: Path) -> None:
        """When nothing of the guest is left, no process and no file. Again, or never claimed: nothing."""
        if not os.access(self._claims, os.W_OK, effective_ids=True):
            return  # nobody has claimed one; or root has, and an agent that is not root never did
        with self._locked():
            held = self._held()
            if root in held:
                self._forget(held.pop(root))
            if not held:
                self._claims.rmdir()  # an agent that leaves leaves nothing

    def _free(self, held: dict[Path, int]) -> int:
        """One that no guest has; where all are taken, that of one which lives no more and is still kept."""
        # Nobody should be one of them without a note. Where somebody is, no guest becomes that user.
        living = self._living_users()
        usable = [user for user in GUEST_IDS if user not in living]
        ended = {user for root, user in held.items() if self._has_ended(root, user)}
        for taken in (set(held.values()), set(held.values()) - ended):
            free = next((user for user in usable if user not in taken), None)
            if free is not None:
                return free
        raise RuntimeFault(f"each of the {len(GUEST_IDS)} users for guests has a guest", temporary=True)

    def _that_one(self, held: dict[Path, int], wanted: int) -> int:
        ended = {user for root, user in held.items() if self._has_ended(root, user)}
        if wanted in set(held.values()) - ended or wanted in self._living_users():
            raise RuntimeFault(
                f"its image's user is {wanted}, and somebody else on this machine is that user now",
                temporary=True,
            )
        return wanted

    def _has_ended(self, root: Path, user: int) -> bool:
        """By its own record; or nobody recorded its end, and it has had its time to start."""
        claimed_s = os.lstat(self._claims / str(user)).st_mtime
        return (root / EXIT_FILE).exists() or time.time() > claimed_s + STARTED_BY_S

    def _held(self) -> dict[Path, int]:
        held = {Path(os.readlink(claim)): int(claim.name) for claim in self._claims.iterdir()}
        for root in [root for root in held if not root.exists()]:
            self._forget(held.pop(root))
        return held

    def _forget(self, user: int) -> None:
        (self._claims / str(user)).unlink()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        folder = self._lock()
        try:
            yield
        finally:
            os.close(folder)

    def _lock(self) -> int:
        """Locked, and still the one that everybody looks at: somebody may have removed it meanwhile."""
        while True:
            self._claims.mkdir(mode=0o700, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                folder = os.open(self._claims, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                fcntl.flock(folder, fcntl.LOCK_EX)
                with contextlib.suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(folder), os.stat(self._claims)):
                        return folder
                os.close(folder)


def living_users() -> set[int]:
    """Real, effective and saved ones. Not by who owns /proc/PID: a process can make that root."""
    users: set[int] = set()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with (
            contextlib.suppress(OSError),
            open(f"/proc/{name}/status", encoding="ascii", errors="replace") as file,
        ):
            line = next((line for line in file if line.startswith("Uid:")), "")
            users.update(map(int, line.split()[1:]))
    return users


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
