"""What jobs like one took of their machines before: its user's own, of the same program."""

from __future__ import annotations

from itertools import islice

from gpunion.domain.ids import run_id
from gpunion.domain.jobs.job import Job, JobSpec
from gpunion.domain.jobs.use import RunUse, program_of, together
from gpunion.engine.coordinator.state import CampusState
from gpunion.wire.v1.jobs import UsedOut

# Looked through for each job that is handed in, so not all that ever were.
JOBS_LOOKED_AT = 2_000
# Of the same program, the newest: what it took a year ago was another program.
JOBS_COUNTED = 5


def used_out(use: RunUse, of_jobs: int = 1) -> UsedOut:
    return UsedOut(
        jobs=of_jobs,
        for_s=use.for_s,
        cpus=use.cpu_s / use.for_s if use.for_s else 0.0,
        memory_bytes=use.memory_bytes,
        gpu_utilisation=use.gpu_utilisation,
        gpu_memory_bytes=use.gpu_memory_bytes,
    )


def used_by(state: CampusState, job: Job) -> RunUse | None:
    """By its runs that are over."""
    runs = (state.runs.get(run_id(job.id, epoch)) for epoch in range(1, job.epoch + 1))
    return together(run.used for run in runs if run is not None and run.used is not None)


def used_before(state: CampusState, spec: JobSpec) -> tuple[RunUse, int] | None:
    """And by how many jobs. None: nothing was measured."""
    program = program_of(spec.command)
    newest = islice(reversed(state.jobs.values()), JOBS_LOOKED_AT)
    alike = (job for job in newest if job.phase.over and _alike(job.spec, spec, program))
    found = (use for use in (used_by(state, job) for job in alike) if use is not None)
    uses = list(islice(found, JOBS_COUNTED))
    use = together(uses)
    return None if use is None else (use, len(uses))


def _alike(past: JobSpec, spec: JobSpec, program: tuple[str, ...]) -> bool:
    same_owner = past.owner == spec.owner and past.image == spec.image
    return same_owner and past.request.gpus == spec.request.gpus and program_of(past.command) == program
