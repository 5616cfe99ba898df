"""Holding all processes of a container still, on either version of cgroups."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

OLD_TREE = "/sys/fs/cgroup/freezer"
PAUSE_S = 0.002
TRY_S = 0.05
PAUSE_MAX_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Freezer:
    """`write` takes the words; `read` shows one of them, somewhere in it, when it is so."""

    write: str
    freeze_word: str
    thaw_word: str
    read: str
    frozen_line: str
    # Old cgroups may overlook a process that is just being made, and then wait for it for ever: one time in
    # 25, of a shell that starts programs all the time. It has to be begun again.
    forgets: bool

    def freeze(self, limit_s: float) -> bool:
        """False when not everything stood still in time; then it goes on again."""
        until_s = time.monotonic() + limit_s
        # Each try is twice as long: who waits for a disk stands still when that has answered, not before.
        try_s = TRY_S if self.forgets else limit_s
        while True:
            _put(self.write, self.freeze_word)
            if self._stands_still_by(min(until_s, time.monotonic() + try_s)):
                return True
            self.thaw()
            if time.monotonic() >= until_s:
                return False
            time.sleep(min(PAUSE_MAX_S, try_s / 10))  # what it was at may need a moment to get done
            try_s *= 2

    def hold(self, limit_s: float) -> None:
        """For who must not go on: what does not stand still in time is left to do so when it can."""
        if not self.freeze(limit_s):
            _put(self.write, self.freeze_word)

    def _stands_still_by(self, until_s: float) -> bool:
        while not self.frozen():
            if time.monotonic() >= until_s:
                return False
            time.sleep(PAUSE_S)
        return True

    def frozen(self) -> bool:
        return self.frozen_line in _lines(self.read)

    def held(self) -> bool:
        """Frozen, or on the way there."""
        return self.thaw_word not in _lines(self.write)

    def thaw(self) -> None:
        try:
            _put(self.write, self.thaw_word)
        except OSError:
            return  # the guest is gone, and its cgroup with it


def freezer_of(pid: int) -> Freezer | None:
    """That of the cgroup the process is in; None when it is in none of its own."""
    for line in _lines(f"/proc/{pid}/cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers == "freezer" and path != "/":
            state = os.path.normpath(f"{OLD_TREE}/{path}/freezer.state")
            return Freezer(
                write=state,
                freeze_word="FROZEN",
                thaw_word="THAWED",
                read=state,
                frozen_line="FROZEN",
                forgets=True,
            )
        directory = os.path.normpath(f"/sys/fs/cgroup/{path}")
        if not controllers and path != "/" and os.path.exists(f"{directory}/cgroup.freeze"):
            return Freezer(
                write=f"{directory}/cgroup.freeze",
                freeze_word="1",
                thaw_word="0",
                read=f"{directory}/cgroup.events",
                frozen_line="frozen 1",
                forgets=False,
            )
    return None


def _put(path: str, word: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(word)


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().splitlines()
    except OSError:
        return []
