"""Invariant 14: a window that ends for somebody else's sake ends."""

from __future__ import annotations

from functools import partial

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.jobs.guest import Guest
from gpunion.domain.protocol.commit import AgentCommit
from gpunion.sim.checkers.court import Checker, Court

# Time for the keeper's timer to come up in the same instant.
INSTANT_S = 0.01


class HardEndsHold(Checker):
    """By the truth of the machine, whatever its agent says, and whether or not it lives."""

    def __init__(self, court: Court) -> None:
        super().__init__(court)
        self._ends_s: dict[RunId, float | None] = {}

    def agent_committed(self, node_id: NodeId, commit: AgentCommit) -> None:
        clock = self.world.machines[node_id].clock
        for record in commit.decision.changes:
            if not isinstance(record, Guest) or record.subjob is None:
                continue
            ends_s = None if record.hard_end_s is None else clock.true(record.hard_end_s)
            former = self._ends_s.get(record.run_id)
            self._ends_s[record.run_id] = ends_s
            if ends_s is not None and ends_s != former:
                # One that is given too late is kept as soon as it is known.
                at_s = max(ends_s, self.court.now_s) + INSTANT_S
                self.world.kernel.at(at_s, partial(self._look, node_id, record.run_id, ends_s))

    def _look(self, node_id: NodeId, run_id: RunId, ends_s: float) -> None:
        if self._ends_s.get(run_id) != ends_s:
            return  # it was moved meanwhile
        box = self.world.machines[node_id].runtime.boxes.get(run_id)
        if box is not None and box.alive:
            self.court.find(14, box.job_id, f"{run_id} lives after the hard end of its window")
