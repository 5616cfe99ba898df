"""Who used and lent how much, and what became of the work: counted from the coordinator's own records.

Nothing is forgotten of what ran, so any time can be asked for. GPU-seconds here are of whole cards, whatever
their speed, and never fade; what decides whose turn it is (`policy/fairness`) is another sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gpunion.domain.ids import migration_id, run_id
from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.jobs.migration import Cause, Migration, MigrationPhase
from gpunion.domain.jobs.run import EndReason, Run
from gpunion.engine.coordinator.runs.migrations import moved_off
from gpunion.engine.coordinator.state import CampusState


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`lab`, `user`: only jobs of theirs, and of a lab its machines; None: everybody's."""

    since_s: float
    until_s: float
    lab: str | None = None
    user: str | None = None

    def concerns(self, job: Job) -> bool:
        return self.lab in (None, job.spec.lab) and self.user in (None, job.spec.owner)

    def overlap_s(self, from_s: float, to_s: float) -> float:
        return max(0.0, min(to_s, self.until_s) - max(from_s, self.since_s))

    def has(self, at_s: float | None) -> bool:
        return at_s is not None and self.since_s <= at_s <= self.until_s


@dataclass(slots=True, kw_only=True)
class PersonUse:
    user: str
    lab: str
    submitted: int = 0
    succeeded: int = 0
    failed: int = 0
    used_gpu_s: float = 0.0  # on any machine
    borrowed_gpu_s: float = 0.0  # of it, on machines of other labs


@dataclass(slots=True, kw_only=True)
class LabUse:
    lab: str
    used_gpu_s: float = 0.0  # by its people's jobs
    borrowed_gpu_s: float = 0.0
    given_gpu_s: float = 0.0  # by its machines, to anybody's jobs
    lent_gpu_s: float = 0.0  # of it, to jobs of other labs


@dataclass(slots=True, kw_only=True)
class Interruptions:
    """What one cause did to runs within the time asked for. `kept`: of what they had done since they began,
    however long ago, what their jobs went on from: what an interruption costs does not depend on since when
    somebody looks."""

    cause: Cause
    count: int = 0
    moved: int = 0  # of them, those that went on on another machine
    anew: int = 0  # those that began from the beginning
    kept_gpu_s: float = 0.0
    lost_gpu_s: float = 0.0
    stood_still_s: float = 0.0
    shipped_bytes: int = 0


@dataclass(slots=True, kw_only=True)
class Usage:
    people: dict[tuple[str, str], PersonUse] = field(default_factory=dict)
    labs: dict[str, LabUse] = field(default_factory=dict)
    causes: dict[Cause, Interruptions] = field(default_factory=dict)
    used_gpu_s: float = 0.0
    failed_gpu_s: float = 0.0  # of jobs that ended badly, as far as no interruption had lost it before

    def person(self, job: Job) -> PersonUse:
        key = (job.spec.lab, job.spec.owner)
        return self.people.setdefault(key, PersonUse(user=job.spec.owner, lab=job.spec.lab))

    def lab(self, lab: str) -> LabUse:
        return self.labs.setdefault(lab, LabUse(lab=lab))


def usage_of(state: CampusState, asked: Asked) -> Usage:
    usage = Usage()
    for job in state.jobs.values():
        _count_job(usage, job, asked)
        for run in _runs_of(state, job):
            _count_run(usage, state, job, run, asked)
        if asked.concerns(job):
            for migration in _migrations_of(state, job):
                _count_interruption(usage, state, migration, asked)
    return usage


def _count_job(usage: Usage, job: Job, asked: Asked) -> None:
    if not asked.concerns(job):
        return
    if asked.has(job.submitted_s):
        usage.person(job).submitted += 1
    if asked.has(job.ended_s):
        usage.person(job).succeeded += job.phase is JobPhase.SUCCEEDED
        usage.person(job).failed += job.phase is JobPhase.FAILED


def _count_run(usage: Usage, state: CampusState, job: Job, run: Run, asked: Asked) -> None:
    if run.started_s is None:
        return
    gpu_s = len(run.grant.gpu_indices) * asked.overlap_s(run.started_s, _until_s(run, asked.until_s))
    if not gpu_s:
        return
    lender = _lender(state, run)
    elsewhere = lender != job.spec.lab
    if asked.user is None and asked.lab in (None, lender):
        usage.lab(lender).given_gpu_s += gpu_s
        usage.lab(lender).lent_gpu_s += gpu_s * elsewhere
    if not asked.concerns(job):
        return
    usage.used_gpu_s += gpu_s
    usage.person(job).used_gpu_s += gpu_s
    usage.person(job).borrowed_gpu_s += gpu_s * elsewhere
    usage.lab(job.spec.lab).used_gpu_s += gpu_s
    usage.lab(job.spec.lab).borrowed_gpu_s += gpu_s * elsewhere
    if run.end_reason is EndReason.FAILED and job.phase is JobPhase.FAILED:
        usage.failed_gpu_s += gpu_s


def _until_s(run: Run, now_s: float) -> float:
    """When its GPUs were others' again."""
    if run.gpus_back and run.over_s is not None:
        return run.over_s
    return now_s if run.ended_s is None else run.ended_s


def _lender(state: CampusState, run: Run) -> str:
    """As it was when the run began; a lab renamed since lent it all the same."""
    if run.charge is not None:
        return run.charge.lender
    node = state.nodes.get(run.node_id)
    return "" if node is None else node.facts.lab


def _count_interruption(usage: Usage, state: CampusState, migration: Migration, asked: Asked) -> None:
    source = state.runs.get(migration.source_run)
    if source is None or not asked.has(migration.started_s) or not moved_off(state, migration):
        return
    told = usage.causes.setdefault(migration.cause, Interruptions(cause=migration.cause))
    told.count += 1
    if migration.phase is not MigrationPhase.DONE:
        return
    done_gpu_s = source.held_gpu_s(_until_s(source, asked.until_s))
    heir = state.runs.get(run_id(source.job_id, source.epoch + 1))
    anew = heir is not None and heir.restored_from is None
    lost_gpu_s = done_gpu_s * lost_share(migration, source, anew=anew)
    told.moved += migration.went_elsewhere
    told.anew += anew
    told.lost_gpu_s += lost_gpu_s
    told.kept_gpu_s += done_gpu_s - lost_gpu_s
    told.stood_still_s += migration.downtime_s or 0.0
    told.shipped_bytes += migration.shipped_bytes


def lost_share(migration: Migration, source: Run, *, anew: bool) -> float:
    """Of what a run had done. Steps tell how much; of a program that counts none only whether it had to begin
    anew."""
    steps = source.last_step - source.resumed_step
    if steps > 0:
        return min(1.0, migration.steps_redone / steps)
    return 1.0 if anew else 0.0


def _runs_of(state: CampusState, job: Job) -> Iterator[Run]:
    found = (state.runs.get(run_id(job.id, epoch)) for epoch in range(1, job.epoch + 1))
    return (run for run in found if run is not None)


def _migrations_of(state: CampusState, job: Job) -> Iterator[Migration]:
    numbers = range(1, job.migrations + 1)
    found = (state.migrations.get(migration_id(job.id, number)) for number in numbers)
    return (one for one in found if one is not None)
