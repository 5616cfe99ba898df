"""Whether there was room to write the last decision down.

While there is none, what is due waits: it would be decided, refused by the disk and due again, without end.
"""

from __future__ import annotations

import structlog

from gpunion.ports.store import StoreFull

# Room that somebody makes is found that soon, and a full disk is asked no more often.
ASK_AGAIN_S = 1.0

log = structlog.get_logger("gpunion.coordinator")


class Room:
    def __init__(self) -> None:
        self.asked_again_s = 0.0  # by the coordinator's clock
        self._full = False

    def may_be_asked(self, now_s: float) -> bool:
        return now_s >= self.asked_again_s

    def missed(self, now_s: float, fault: StoreFull) -> None:
        self.asked_again_s = now_s + ASK_AGAIN_S
        if not self._full:
            log.error(
                "no_room",
                trouble=str(fault),
                meanwhile="nothing new is accepted; leases are renewed, and what is known can be read",
                next_step="make room there; it goes on by itself",
            )
        self._full = True

    def found(self) -> None:
        if self._full:
            log.info("room_again")
        self._full = False
