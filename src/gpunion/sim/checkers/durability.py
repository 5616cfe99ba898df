"""Invariants 3 and 4: one incarnation at a time makes state, and what was called durable stays so."""

from __future__ import annotations

from gpunion.domain.ids import CheckpointId, JobId
from gpunion.domain.jobs.job import Job
from gpunion.domain.protocol.commit import Commit
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.sim.checkers.court import Checker, Court
from gpunion.sim.program.box import Box
from gpunion.sim.vault import Sealed


class OneIncarnation(Checker):
    def __init__(self, court: Court) -> None:
        super().__init__(court)
        self._begun: dict[JobId, int] = {}

    def vault_begun(self, job_id: JobId, epoch: int) -> None:
        if epoch < self._begun.get(job_id, 0):
            self.court.find(3, job_id, f"epoch {epoch} began after {self._begun[job_id]}")
        self._begun[job_id] = max(epoch, self._begun.get(job_id, 0))

    def vault_sealed(self, sealed: Sealed) -> None:
        newest = self._begun.get(sealed.job_id, 0)
        if sealed.epoch < newest:
            what = (
                f"{sealed.checkpoint_id} of epoch {sealed.epoch} was sealed though epoch {newest} has begun"
            )
            self.court.find(3, sealed.job_id, what)

    def guest_began(self, box: Box) -> None:
        for machine in self.world.machines.values():
            for other in machine.runtime.living():
                if other.job_id == box.job_id and other is not box:
                    what = (
                        f"{other.run_id} lives on {other.node_id} while {box.run_id} begins on {box.node_id}"
                    )
                    self.court.find(3, box.job_id, what)


class DurableStaysDurable(Checker):
    def __init__(self, court: Court) -> None:
        super().__init__(court)
        self._acknowledged: dict[JobId, int] = {}
        self._sealed: dict[JobId, int] = {}
        self._spoiled: dict[JobId, tuple[CheckpointId, ...]] = {}
        self._given_up: set[JobId] = set()  # whose dump came to life nowhere, as was told
        self._seats = {job.id: job.spec.seat for job in self.world.scenario.jobs}

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        for record in commit.decision.changes:
            if isinstance(record, Job):
                self._judge(record)

    def vault_sealed(self, sealed: Sealed) -> None:
        before = self._sealed.get(sealed.job_id, 0)
        alone = self._seats.get(sealed.job_id) is None  # else what the others lack counts for nobody
        if sealed.step < before and alone:
            what = f"{sealed.checkpoint_id} seals step {sealed.step} after step {before} was sealed"
            self.court.find(4, sealed.job_id, what)
        if not sealed.whole:
            # A dump that nobody was told of may have to be left alone: not every machine brings it back.
            self._sealed[sealed.job_id] = max(before, sealed.step)

    def guest_began(self, box: Box) -> None:
        acknowledged = self._acknowledged.get(box.job_id, 0)
        if box.resumed_step < acknowledged:
            what = f"{box.run_id} goes on from step {box.resumed_step} though step {acknowledged} is durable"
            self.court.find(4, box.job_id, what)

    def _judge(self, job: Job) -> None:
        step = 0 if job.durable is None else job.durable.step
        if job.spoiled != self._spoiled.get(job.id, ()):  # went back knowingly, by one and with a reason
            self._spoiled[job.id] = job.spoiled
            self._acknowledged[job.id] = self._sealed[job.id] = step
        if job.dumps_given_up and job.id not in self._given_up:
            self._given_up.add(job.id)
            self._acknowledged[job.id] = step
        before = self._acknowledged.get(job.id, 0)
        if step < before:
            self.court.find(4, job.id, f"the durable step went back from {before} to {step}")
        self._acknowledged[job.id] = max(step, before)
        if job.durable is None or job.phase.over:
            return
        vault = self.world.vault
        alone = job.spec.seat is None  # a gang restores that one only
        newest = vault.latest(job.id, job.spoiled) if alone else None
        for point in job.earlier:
            as_new = newest is not None and newest.step >= point.step
            if vault.get(job.id, point.checkpoint_id) is None and not as_new:
                what = f"{point.checkpoint_id} (step {point.step}) could not be gone back to"
                self.court.find(4, job.id, what)
        held = vault.get(job.id, job.durable.checkpoint_id)
        if held is None and (newest is None or newest.step < step):
            what = f"{job.durable.checkpoint_id} (step {step}) is called durable and cannot be restored"
            self.court.find(4, job.id, what)
        elif held is not None and held.step != step:
            what = f"{held.checkpoint_id} holds step {held.step}, the coordinator believes {step}"
            self.court.find(4, job.id, what)
