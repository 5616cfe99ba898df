"""Invariants 11 and 12 on the ground: one gang goes on from one state, and never two epochs of it at once.

Members that tell their steps go on from one step. Those that tell none go on from what all of them were asked
to save at one moment, and from no older one than before.
"""

from __future__ import annotations

from gpunion.domain.ids import CheckpointId, JobId
from gpunion.domain.jobs.gang import leader_of
from gpunion.domain.jobs.job import Job
from gpunion.domain.protocol.commit import Commit
from gpunion.domain.protocol.effects import SendOrder
from gpunion.domain.protocol.orders import TakeCheckpoint
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.sim.checkers.court import Checker, Court
from gpunion.sim.program.box import Box


class OneStepForAGang(Checker):
    def __init__(self, court: Court) -> None:
        super().__init__(court)
        self._began: dict[tuple[JobId, int], tuple[str, float | None]] = {}
        self._programs = {job.id: job.program for job in self.world.scenario.jobs}
        self._asked: dict[CheckpointId, float] = {}
        self._newest: dict[JobId, tuple[tuple[CheckpointId, ...], float]] = {}

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        for effect in commit.decision.effects:
            if isinstance(effect, SendOrder) and isinstance(effect.order, TakeCheckpoint):
                self._asked[effect.order.checkpoint_id] = commit.at_s
        for record in commit.decision.changes:
            if isinstance(record, Job) and record.spec.seat is not None:
                self._never_older(record)

    def guest_began(self, box: Box) -> None:
        seat = box.order.seat
        if seat is None:
            return
        leader = leader_of(box.job_id, seat)
        begins = self._goes_on_from(box)
        other_begins = self._began.setdefault((leader, box.order.epoch), begins)
        if begins != other_begins:
            ours, theirs = _in_words(begins), _in_words(other_begins)
            what = f"{box.run_id} goes on from {ours}, another member from {theirs}"
            self.court.find(12, box.job_id, what)
        for machine in self.world.machines.values():
            for other in machine.runtime.living():
                same = other.order.seat is not None and leader_of(other.job_id, other.order.seat) == leader
                if same and other.order.epoch != box.order.epoch:
                    what = f"{box.run_id} begins while {other.run_id} is still there"
                    self.court.find(11, box.job_id, what)

    def _goes_on_from(self, box: Box) -> tuple[str, float | None]:
        if self._programs[box.job_id].tells_steps:
            return "step", box.resumed_step
        return "asked at", None if box.order.restore is None else self._asked[box.order.restore]

    def _never_older(self, job: Job) -> None:
        if job.durable is None or self._programs[job.id].tells_steps:
            return
        asked_s = self._asked[job.durable.checkpoint_id]
        spoiled, newest_s = self._newest.get(job.id, (job.spoiled, asked_s))
        if asked_s < newest_s and job.spoiled == spoiled:  # else it went back knowingly
            what = f"it would go on from what was asked for at {asked_s}, after {newest_s} was durable"
            self.court.find(4, job.id, what)
        self._newest[job.id] = job.spoiled, asked_s


def _in_words(begins: tuple[str, float | None]) -> str:
    return " ".join(map(str, begins))
