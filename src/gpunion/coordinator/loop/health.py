"""What the running process counts and what its audit found, for `GET /audit`."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass

import structlog

from gpunion.ports.database import StoreFull

VIOLATIONS_KEPT = 100  # the first ones matter; the count goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    at_s: float
    event: str
    invariant: str
    detail: str


class Ledger:
    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.findings: deque[Finding] = deque(maxlen=VIOLATIONS_KEPT)

    def count(self, name: str) -> None:
        self.counters[name] += 1

    def found(self, finding: Finding) -> None:
        self.count("violations")
        if len(self.findings) < VIOLATIONS_KEPT:
            self.findings.append(finding)


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
