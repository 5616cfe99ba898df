"""A save that is of no use: its blocks cannot be read, or its program cannot go on from what it saved.

What was called durable goes back by one then, knowingly and with the reason told. The next run is told which
saves to leave alone, since it would take the newest that it finds sealed.
"""

from __future__ import annotations

from gpunion.domain.checkpoint import Checkpoint, CheckpointPhase
from gpunion.domain.ids import CheckpointId, JobId
from gpunion.domain.job import DurablePoint, Job
from gpunion.domain.reasons import Why
from gpunion.domain.replacing import replace
from gpunion.domain.reports import RunEnded, RunStarted
from gpunion.domain.run import Run
from gpunion.domain.system_tier import Tier
from gpunion.engine.draft import Draft

# In a row. Vaults keep the newest three; and who fails after three of them fails for another reason.
GOES_BACK_MOST = 2
# Steps of a program that is saved from outside are seconds of work, and count while it still reads its files.
SECONDS_TO_LOAD = 30
SPOILED_KEPT = 8


def before_what_failed(draft: Draft, job: Job, run: Run, report: RunEnded, detail: str) -> Job | None:
    """The job as it goes on from an earlier save; None where its program failed for another reason, or where
    there is no earlier one."""
    if not blames_its_save(draft, job, run, report):
        return None
    assert run.restored_from is not None
    earlier = _without(draft, job, run.restored_from)
    if earlier is not None:
        step, durable = run.resumed_step, _step(earlier)
        draft.because(job.id, Why.SAVE_SPOILED, step=step, detail=detail, durable=durable)
    return earlier


def before_the_dump(draft: Draft, job: Job) -> Job | None:
    """The job as it goes on from an earlier save than a whole guest that came to life nowhere; None: there
    is none to be tried."""
    assert job.dump is not None
    earlier = _without(draft, job, job.dump.checkpoint_id)
    if earlier is None:
        return None
    draft.because(job.id, Why.DUMP_SPOILED, step=job.dump.step, durable=_step(earlier))
    return replace(earlier, dump_failures=0)


def blames_its_save(draft: Draft, job: Job, run: Run, report: RunEnded) -> bool:
    """It failed before it had done a step, or saved anything, since it was given what it had saved."""
    if job.spec.seat is not None or report.exit_code == 0:
        return False
    return came_to_nothing(draft, job, run)


def came_to_nothing(draft: Draft, job: Job, run: Run) -> bool:
    """A run that has ended, given what was saved, with neither a step made nor anything saved since."""
    if run.restored_from is None:
        return False
    given = draft.state.checkpoints.get(run.restored_from)
    if (job.tier if given is None else given.tier) is not Tier.APP:
        return False  # whoever was brought back whole had nothing to read
    wish = job.spec.checkpoint
    slack = SECONDS_TO_LOAD if wish.command or wish.signal else 0
    if run.last_step > run.resumed_step + slack:
        return False
    return not any(one.run_id == run.id for one in _durable_ones(draft, job.id))


def to_what_could_be_read(draft: Draft, job: Job, report: RunStarted) -> Job:
    """Newer saves could not be read on the machine where it begins."""
    draft.because(job.id, Why.SAVE_UNREADABLE, trouble=report.unreadable, step=report.resumed_step)
    found = None if report.restored is None else draft.state.checkpoints.get(report.restored)
    ahead = job.durable is not None and job.durable.step > report.resumed_step
    if not ahead or found is None or found.phase is not CheckpointPhase.DURABLE:
        return job
    return replace(job, durable=_point(found))


def _without(draft: Draft, job: Job, useless: CheckpointId) -> Job | None:
    """The job as it goes on from its newest save but those that are of no use."""
    if job.went_back >= GOES_BACK_MOST:
        return None
    spoiled = (*job.spoiled, useless)[-SPOILED_KEPT:]
    usable = (Tier.APP,) if job.tier is Tier.APP else (Tier.APP, Tier.SYSTEM)
    left = [one for one in _durable_ones(draft, job.id) if one.id not in spoiled and one.tier in usable]
    newest = max(left, key=lambda one: (one.epoch, one.step), default=None)
    if newest is None:
        return None
    return replace(job, durable=_point(newest), spoiled=spoiled, went_back=job.went_back + 1)


def _step(job: Job) -> int:
    return 0 if job.durable is None else job.durable.step


def _durable_ones(draft: Draft, job_id: JobId) -> list[Checkpoint]:
    known = draft.state.checkpoints.values()
    return [one for one in known if one.job_id == job_id and one.phase is CheckpointPhase.DURABLE]


def _point(saved: Checkpoint) -> DurablePoint:
    return DurablePoint(
        checkpoint_id=saved.id,
        step=saved.step,
        progress=saved.progress,
        at_s=saved.requested_s if saved.durable_s is None else saved.durable_s,
        tier=saved.tier,
        kind=saved.kind,
        gpu=saved.gpu,
        size_bytes=saved.size_bytes,
    )
