"""What a node may do with what is saved of a job, by what the campus knows of the job's runs.

A machine is believed about its own runs and nothing else. A run is *open* while no later one has started:
its node may still save, also after the program has ended, since last saves and outputs arrive late. Of a run
that is over its node may bring copies of what the campus knows to be sealed, and read what it saved itself.
Whether a later run has begun in the vault meanwhile the vault itself says, under its own lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId, run_id
from gpunion.domain.jobs.checkpoint import Checkpoint, CheckpointPhase
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.engine.coordinator.state import CampusState
from gpunion.text import is_of_run

NOT_YOUR_JOB, NOT_YOUR_RUN, OLD_EPOCH = "not_your_job", "not_your_run", "old_epoch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    code: str  # never changes its meaning
    detail: str
    next_step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultRights:
    """Of one node to one job, at the moment they were asked for."""

    node_id: NodeId
    job_id: JobId
    newest: int  # epochs that the job has had
    own: frozenset[int]  # those whose run was this node's
    open: frozenset[int]  # of its own: no later run has started
    awaits: bool  # it was told to have the job's state lie ready
    named: frozenset[CheckpointId]  # what the campus counts on
    known: Mapping[CheckpointId, Checkpoint]  # what it has heard of

    def why_not_save(self, epoch: int) -> Refusal | None:
        """Beginning, which each upload does, and putting blocks for it."""
        if epoch in self.open:
            return None
        if epoch in self.own:
            return self._over(epoch)
        return self._stranger() or self._not_its_run(epoch)

    def why_not_seal(self, epoch: int, checkpoint_id: str) -> Refusal | None:
        return self.why_not_save(epoch) or self._misnamed(epoch, checkpoint_id)

    def why_not_bring(self, epoch: int) -> Refusal | None:
        """A copy of anything of this epoch."""
        if epoch in self.own or any(epoch <= mine for mine in self.open):
            return None
        return self._stranger() or self._not_its_run(epoch)

    def why_not_copy(self, epoch: int, checkpoint_id: str, step: int) -> Refusal | None:
        """Of its own open runs as it likes, since it might seal that as well; of others what is known."""
        refusal = self.why_not_bring(epoch) or self._misnamed(epoch, checkpoint_id)
        if refusal is not None or epoch in self.open or self._is_known(checkpoint_id, step):
            return refusal
        return Refusal(
            code=NOT_YOUR_RUN,
            detail=f"the campus knows of no checkpoint {checkpoint_id} of step {step}",
            next_step="copy only what was reported as sealed before a later run of its job started",
        )

    def why_not_read(self) -> Refusal | None:
        """All of it, or what `shows` lets through."""
        return None if self.own or self.awaits else self._stranger()

    def why_not_read_newest(self) -> Refusal | None:
        """To build on it."""
        if self.open or self.awaits:
            return None
        return self._stranger() or self._over(max(self.own))

    def shows(self, epoch: int) -> bool:
        return bool(self.open) or self.awaits or epoch in self.own

    def why_not_hold(self, checkpoint_id: str) -> Refusal | None:
        if self.open or self.awaits:
            return None
        if any(is_of_run(checkpoint_id, self.job_id, epoch) for epoch in self.own):
            return None
        return self._stranger() or self._over(max(self.own))

    def why_not_touch_blocks(self) -> Refusal | None:
        """Those of a job with a key: who runs it, and who may bring copies of what it saved."""
        return None if self.own else self._stranger()

    def why_not_save_any(self) -> Refusal | None:
        """Also asking for older checkpoints to be forgotten; which may go the coordinator says."""
        if self.open:
            return None
        return self._stranger() or self._over(max(self.own))

    def _is_known(self, checkpoint_id: str, step: int) -> bool:
        found = self.known.get(CheckpointId(checkpoint_id))
        if found is not None and found.phase is CheckpointPhase.DURABLE:
            return found.step == step and found.job_id == self.job_id
        return checkpoint_id in self.named

    def _stranger(self) -> Refusal | None:
        if self.own:
            return None
        return Refusal(
            code=NOT_YOUR_JOB,
            detail=f"{self.node_id} was given no run of {self.job_id}",
            next_step="ask only for jobs this node was given",
        )

    def _not_its_run(self, epoch: int) -> Refusal:
        if epoch > self.newest:
            detail = f"{self.job_id} has had {self.newest} runs; there is no checkpoint of epoch {epoch}"
        else:
            detail = f"{run_id(self.job_id, epoch)} was not given to {self.node_id}"
        return Refusal(
            code=NOT_YOUR_RUN, detail=detail, next_step="save and copy only what this node's own runs made"
        )

    def _over(self, epoch: int) -> Refusal:
        return Refusal(
            code=OLD_EPOCH,
            detail=f"epoch {epoch} of {self.job_id}: a later run has begun, on the state that was there then",
            next_step="end this run; what it saved in time is kept",
        )

    def _misnamed(self, epoch: int, checkpoint_id: str) -> Refusal | None:
        if is_of_run(checkpoint_id, self.job_id, epoch):
            return None
        run = run_id(self.job_id, epoch)
        return Refusal(
            code=NOT_YOUR_RUN,
            detail=f"{checkpoint_id} cannot be of {run}, whose checkpoints are called {run}-...",
            next_step="call a checkpoint after the run that made it",
        )


def rights_of(state: CampusState, node_id: NodeId, job_id: JobId) -> VaultRights:
    job, held = state.jobs.get(job_id), state.held.get(job_id)
    runs = [] if job is None else _runs_of(state, job)
    if held is not None and not held.given_up:
        runs = list(held.runs)  # it goes on, and what it saves is wanted
    own = frozenset(run.epoch for run in runs if run.node_id == node_id)
    started = max((run.epoch for run in runs if _has_started(run)), default=0)
    return VaultRights(
        node_id=node_id,
        job_id=job_id,
        newest=max((run.epoch for run in runs), default=0) if job is None else job.epoch,
        own=own,
        open=frozenset(epoch for epoch in own if epoch >= started),
        awaits=job is not None and job.copy_on(node_id) is not None,
        named=frozenset() if job is None else counted_on(state, job),
        known=state.checkpoints,
    )


def counted_on(state: CampusState, job: Job) -> frozenset[CheckpointId]:
    """What no machine may have forgotten: whatever its present run seals, an earlier run's state is there
    until a later one has begun on what came after it."""
    points = (job.durable, *job.earlier)
    names = {point.checkpoint_id for point in points if point is not None}
    if job.output is not None:
        names.add(job.output)
    newest = state.runs.get(run_id(job.id, job.epoch))
    if newest is not None and newest.restored_from is not None:
        names.add(newest.restored_from)
    return frozenset(names)


def why_not_share_blocks(state: CampusState, node_id: NodeId, *, reading: bool = False) -> Refusal | None:
    """The blocks that all jobs share, which nobody's name is on."""
    if state.living.get(node_id) or any(run.node_id == node_id for run in state.runs.values()):
        return None
    if reading and state.counted_on.get(node_id):
        return None
    return Refusal(
        code=NOT_YOUR_JOB,
        detail=f"{node_id} was given no job, and has nothing to save or to restore",
        next_step="ask once this node was given a job",
    )


def why_not_log(state: CampusState, node_id: NodeId, run: Run) -> Refusal | None:
    """What a program printed last arrives after its end, and often after the next run has started. Each run
    has a log of its own, so a machine that writes into it later adds nothing to anybody else's."""
    if run.node_id != node_id:
        return Refusal(
            code=NOT_YOUR_RUN,
            detail=f"{run.id} is not a run of {node_id}",
            next_step="push only logs of runs this node was given",
        )
    return None


def _has_started(run: Run) -> bool:
    return run.started_s is not None or run.phase in (RunPhase.RUNNING, RunPhase.LEAVING)


def _runs_of(state: CampusState, job: Job) -> list[Run]:
    ids = (run_id(job.id, epoch) for epoch in range(1, job.epoch + 1))
    return [run for name in ids if (run := state.runs.get(RunId(name))) is not None]
