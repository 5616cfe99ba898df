"""Invariant 14: a window that ends for somebody else's sake ends, and not later than they were told."""

from __future__ import annotations

from functools import partial

from gpunion.domain.ids import JobId, NodeId, RunId
from gpunion.domain.jobs.guest import Guest
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.window import Promise
from gpunion.domain.protocol.commit import AgentCommit, Commit
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
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


class PromisesAreNotPutOff(Checker):
    """One that cannot be kept is given up, which is told; none is for later, or for another place."""

    def __init__(self, court: Court) -> None:
        super().__init__(court)
        self._promised: dict[JobId, Promise] = {}

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        del station
        given_up = {one.subject for one in commit.decision.reasons if one.why is Why.PROMISE_DROPPED}
        for record in commit.decision.changes:
            if not isinstance(record, Job):
                continue
            former = self._promised.pop(record.id, None)
            if record.promised is None:
                continue
            self._promised[record.id] = record.promised
            if former not in (None, record.promised) and record.id not in given_up:
                assert former is not None
                was, now = f"by {former.by_s:.3f} s", f"by {record.promised.by_s:.3f} s"
                self.court.find(14, record.id, f"its promise on {former.node_id} {was} is another one, {now}")
