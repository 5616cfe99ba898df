"""How much of a disk a vault may take, as the disk's owner says; and never the last of it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from gpunion.text import size_in_words
from gpunion.vault.manifest import VaultFull, VaultUnavailable

# Adding up reads every file's size. What was stored since is known; what was deleted shows next time.
ADD_UP_EVERY_S = 300.0
# Where there seems to be no room: somebody may just have made some.
ADD_UP_AGAIN_S = 5.0
KEEP_FREE_BYTES = 2 * 1024**3  # of the disk: its owner works on it too
# Some records of a run. How much its saves take nobody knows: those that do not fit are told one by one.
ROOM_TO_BEGIN_BYTES = 1024**2


class Allowance:
    """Asked before a block is stored. VaultFull where there is no room for it. Any number of threads.

    Adding up a large disk takes minutes. It is done beside what is stored meanwhile, which nobody waits with
    but where it is not known otherwise whether there is room.
    """

    def __init__(
        self,
        root: Path,
        limit_bytes: int,
        *,
        keep_free_bytes: int = KEEP_FREE_BYTES,
        now_s: Callable[[], float] = time.monotonic,
        measure: Callable[[Path], int] | None = None,
    ) -> None:
        """`measure` adds up what lies in a folder."""
        self._root = root
        self._measure = measure or _size_bytes
        self.limit_bytes = limit_bytes
        self._keep_free_bytes = keep_free_bytes
        self._now_s = now_s
        self._lock = threading.Lock()
        self._used_bytes = 0
        self._added_up_s: float | None = None
        self._adding_up: threading.Thread | None = None
        self._meanwhile_bytes = 0  # stored since the adding up began, which may have counted it or not

    def __call__(self, more_bytes: int) -> None:
        adding_up = self._add_up(ADD_UP_EVERY_S)
        if self._added_up_s is None and adding_up is not None:
            adding_up.join()
        if self._used_bytes + more_bytes > self.limit_bytes:
            self.add_up(ADD_UP_AGAIN_S)
        with self._lock:
            self._refuse_beyond(more_bytes)
            self._used_bytes += more_bytes
            self._meanwhile_bytes += more_bytes

    def check(self) -> None:
        """VaultFull where not even a beginning has room, as far as it was added up: nobody waits for that,
        and an idle disk is left alone."""
        if self._added_up_s is None or self._meanwhile_bytes:
            self._add_up(ADD_UP_EVERY_S)
        try:
            with self._lock:
                self._refuse_beyond(ROOM_TO_BEGIN_BYTES)
        except VaultFull:
            self._add_up(ADD_UP_EVERY_S)
            raise

    def freed(self, fewer_bytes: int) -> None:
        """Who makes room stores something at once."""
        with self._lock:
            self._used_bytes = max(0, self._used_bytes - fewer_bytes)

    @property
    def known_bytes(self) -> int:
        """What is used, as far as it was added up."""
        return self._used_bytes

    def add_up(self, every_s: float = 0.0) -> None:
        """Returns when it is done, or was done that lately."""
        if adding_up := self._add_up(every_s):
            adding_up.join()

    def begin_to_add_up(self) -> None:
        self._add_up(0.0)

    def _refuse_beyond(self, more_bytes: int) -> None:
        """Under the lock."""
        if self._used_bytes + more_bytes > self.limit_bytes:
            raise VaultFull(
                f"{self._root} is full: its owner lends {size_in_words(self.limit_bytes)} for checkpoints"
            )
        if self._free_bytes() - more_bytes < self._keep_free_bytes:
            raise VaultFull(
                f"the disk of {self._root} is nearly full: "
                f"{size_in_words(self._keep_free_bytes)} of it stay free"
            )

    def _add_up(self, every_s: float) -> threading.Thread | None:
        """The one that is under way."""
        with self._lock:
            if self._adding_up is None and (
                self._added_up_s is None or self._now_s() - self._added_up_s >= every_s
            ):
                self._meanwhile_bytes = 0
                self._adding_up = threading.Thread(target=self._look, daemon=True, name="gpunion-allowance")
                self._adding_up.start()
            return self._adding_up

    def _look(self) -> None:
        found_bytes = self._measure(self._root)
        with self._lock:
            self._used_bytes = found_bytes + self._meanwhile_bytes
            self._added_up_s = self._now_s()
            self._adding_up = None

    def _free_bytes(self) -> int:
        about = os.statvfs(self._root)
        return about.f_bavail * about.f_frsize


def leaving_free(root: Path, keep_free_bytes: int, neighbour: Path) -> Callable[[int], None]:
    """For a vault without an allowance: it never takes the last of a disk that `neighbour` lies on too."""

    def allow(more_bytes: int) -> None:
        if os.stat(root).st_dev != os.stat(neighbour).st_dev:
            return
        about = os.statvfs(root)
        free_bytes = about.f_bavail * about.f_frsize
        if free_bytes - more_bytes < keep_free_bytes:
            # Without how much is left: whoever tells this on tells it anew when it changes.
            raise VaultFull(
                f"the disk of {root} is nearly full: {size_in_words(keep_free_bytes)} of it stay free for "
                f"{neighbour}"
            )

    return allow


def check_room(root: Path) -> None:
    """VaultFull or VaultUnavailable where nothing can begin: who came with a job would be turned away."""
    about = os.statvfs(root)
    if about.f_flag & os.ST_RDONLY:
        raise VaultUnavailable(
            f"{root} can only be read: nothing can be saved there. Next: mount it so that it can be written"
        )
    if about.f_blocks and about.f_bavail * about.f_frsize < ROOM_TO_BEGIN_BYTES:  # some cannot say how much
        raise VaultFull(
            f"no room is left for checkpoints in {root}. "
            "Next: make room on that disk; gpunion vault ls shows what lies there"
        )


def _size_bytes(root: Path) -> int:
    found = 0
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                found += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue  # it has gone meanwhile
    return found
