"""Where around its commits a process dies: before, after, or somewhere among the effects that follow."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Moment(Enum):
    BEFORE_COMMIT = "before_commit"
    AFTER_COMMIT = "after_commit"


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """`effects_done`: how many effects of that commit are still performed before the end."""

    moment: Moment
    effects_done: int = 0


class Crashed(Exception):
    """The process died at its crash point: nobody goes on with what it was doing."""


KINDS = (
    "message_loss",
    "message_duplication",
    "message_delay",
    "message_reorder",
    "connection_break",
    "partition",
    "coordinator_crash",
    "agent_crash",
    "node_crash",
    "clock_drift",
    "clock_jump",
    "slow_disk",
    "full_disk",
    "wiped_disk",
    "spoiled_save",
    "lie",
)


class Tally:
    def __init__(self) -> None:
        self.counts = dict.fromkeys(KINDS, 0)

    def happened(self) -> dict[str, int]:
        """For the digest: where nobody lies it is what it was before anybody could."""
        return {kind: number for kind, number in self.counts.items() if number or kind != "lie"}

    def count(self, kind: str) -> None:
        self.counts[kind] += 1
