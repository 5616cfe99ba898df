"""How fast a node may speak. Whatever it says beyond that waits on its own connection.

What is reported is written down and kept, so a machine that reports without end fills a disk, each report
being right. Honest ones say a few a minute, and a thousand at once when a lot happens. Beats and readings are
kept by nobody, but take everybody's time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpunion.domain.ids import NodeId
from gpunion.domain.protocol.frames import FromAgent, Hello, ReportFrame


@dataclass(frozen=True, slots=True)
class Allowance:
    at_once: float
    per_s: float


KEPT = Allowance(at_once=5_000, per_s=2.0)
# Once it has what it may say used up for so long, it is no burst any more.
TOO_LONG_S = 600.0
OF_ISOLATED = Allowance(at_once=5_000, per_s=0.1)
PASSING = Allowance(at_once=1_000, per_s=200.0)
HELLO_COSTS = 5  # it changes more than a report does, and whoever says it has connected anew


@dataclass(slots=True)
class _Used:
    amount: float = 0.0
    at_s: float = 0.0
    above_since_s: float | None = None

    def use(self, cost: float, of: Allowance, now_s: float) -> float:
        """How long to wait for it."""
        self.amount = max(0.0, self.amount - (now_s - self.at_s) * of.per_s) + cost
        self.at_s = now_s
        wait_s = max(0.0, (self.amount - of.at_once) / of.per_s)
        if not wait_s:
            self.above_since_s = None
        elif self.above_since_s is None:
            self.above_since_s = now_s
        return wait_s


@dataclass(frozen=True, slots=True)
class Wait:
    wait_s: float
    too_long: str = ""  # said once each time: for how long it has been saying more than that


class Pace:
    """In memory only: a flood that goes on is noticed again."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._kept: dict[NodeId, _Used] = {}
        self._passing: dict[NodeId, _Used] = {}

    def of(self, node_id: NodeId, frame: FromAgent, *, isolated: bool) -> Wait:
        now_s = self._now_s()
        if not isinstance(frame, ReportFrame | Hello):
            return Wait(self._passing.setdefault(node_id, _Used()).use(1.0, PASSING, now_s))
        used = self._kept.setdefault(node_id, _Used())
        allowance = OF_ISOLATED if isolated else KEPT
        wait_s = used.use(HELLO_COSTS if isinstance(frame, Hello) else 1.0, allowance, now_s)
        if isolated or used.above_since_s is None or now_s - used.above_since_s < TOO_LONG_S:
            return Wait(wait_s)
        used.above_since_s = now_s
        because = (
            f"for {TOO_LONG_S / 60:.0f} minutes it has reported more than {KEPT.per_s:.0f} things a second"
        )
        return Wait(wait_s, because)
