"""What was asked for, and how long it waited and ran: what a campus is run again from, in a simulation."""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.domain.ids import migration_id, run_id
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.migration import MigrationPhase
from gpunion.domain.jobs.run import Run
from gpunion.engine.coordinator.state import CampusState

from .report import Asked, lost_share


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRequest:
    """Of a gang its first member stands for all. `work_s`: kept work, at the reference card's speed."""

    job: Job
    first_ran_s: float | None
    work_s: float | None  # None: it never ran


def requests_of(state: CampusState, asked: Asked) -> list[PastRequest]:
    """Those of the time, and those that were there when it began; the oldest first."""
    found = []
    for job in state.jobs.values():
        there = job.ended_s is None or job.ended_s > asked.since_s
        if not there or job.submitted_s > asked.until_s or (job.spec.seat and job.spec.seat.rank):
            continue
        runs = [run for run in _runs_of(state, job) if run.started_s is not None]
        firsts = [run.started_s for run in runs if run.started_s is not None]
        work_s = sum(_work_s(state, run, asked) for run in runs) if runs else None
        found.append(PastRequest(job=job, first_ran_s=min(firsts, default=None), work_s=work_s))
    return sorted(found, key=lambda one: (one.job.submitted_s, one.job.id))


def _work_s(state: CampusState, run: Run, asked: Asked) -> float:
    """Of this time: what was done before it needs nobody's machine again."""
    assert run.started_s is not None
    ended_s = asked.until_s if run.ended_s is None else run.ended_s
    node, held = state.nodes.get(run.node_id), set(run.grant.gpu_indices)
    gpus = () if node is None else node.facts.capacity.gpus
    speed = min((gpu.speed for gpu in gpus if gpu.index in held), default=1.0)
    return asked.overlap_s(run.started_s, ended_s) * speed * (1.0 - _lost(state, run))


def _lost(state: CampusState, run: Run) -> float:
    job = state.jobs[run.job_id]
    for number in range(1, job.migrations + 1):
        one = state.migrations.get(migration_id(job.id, number))
        if one is not None and one.source_run == run.id and one.phase is MigrationPhase.DONE:
            heir = state.runs.get(run_id(job.id, run.epoch + 1))
            return lost_share(one, run, anew=heir is not None and heir.restored_from is None)
    return 0.0


def _runs_of(state: CampusState, job: Job) -> list[Run]:
    found = (state.runs.get(run_id(job.id, epoch)) for epoch in range(1, job.epoch + 1))
    return [run for run in found if run is not None]
