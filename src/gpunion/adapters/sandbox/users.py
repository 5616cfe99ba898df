"""For an agent that runs as root: each guest is a user that no other guest on this machine is.

Guests that were one user would share its number of processes, so that one guest's fork bomb kept the others
from starting, and nothing but their namespaces would keep one from ending or reading another's processes.

Several agents may share a machine, so who has which user is noted where all of them look: a link a user,
named by it, to the guest's directory. A reboot clears the notes, and has ended the guests. A link to nothing
is of a guest that was removed by somebody else, and counts no more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from gpunion.adapters.sandbox.stage import GUEST_IDS
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

    def claim(self, root: Path) -> int:
        """A user for the guest with this directory until it is given back; again: the same one."""
        with self._locked():
            held = self._held()
            if root in held:
                return held[root]
            user = self._free(held)
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
