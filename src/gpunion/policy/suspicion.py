"""When is silence taken for absence, and when for proof?

Two thresholds, because they cost differently: a suspected node only gets no new guests; a node given up has
its guests restarted elsewhere, so by then they must certainly be gone.
"""

from __future__ import annotations

from typing import Protocol

from gpunion.domain.nodes.terms import Terms
from gpunion.domain.timing import Timing

MISSED_HEARTBEATS = 3


class Suspicion(Protocol):
    def silent_after_s(self, timing: Timing) -> float: ...

    def given_up_after_s(self, timing: Timing, terms: Terms) -> float:
        """Never earlier than the agent's own promise to have ended its guests."""
        ...


class MissedThenFenced:
    def silent_after_s(self, timing: Timing) -> float:
        return min(MISSED_HEARTBEATS * timing.heartbeat_s, timing.lease_s)

    def given_up_after_s(self, timing: Timing, terms: Terms) -> float:
        return timing.fence_s(terms.autonomy_s)
