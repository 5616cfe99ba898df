"""A run of a gang's member ends: its job is over, or interrupted, only together with the others."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.jobs.checkpoint import Checkpoint, CheckpointPhase
from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.jobs.migration import Cause, Migration, MigrationPhase
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.handlers import runs
from gpunion.engine.coordinator.handlers.interruptions import interrupted
from gpunion.engine.coordinator.handlers.runs import Ending
from gpunion.engine.coordinator.runs import endings, retry_limits
from gpunion.engine.coordinator.runs import gang_fallback as gang_back
from gpunion.engine.coordinator.runs import gang_members as gangs
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.lifecycle.job import JOB
from gpunion.lifecycle.migration import MIGRATION

# How a run ends that was told to; anything else happened to it on its own.
_AS_TOLD = (EndReason.STOPPED, EndReason.SAVED, EndReason.UNKNOWN, EndReason.FAILED)


def ended(draft: Draft, ending: Ending) -> None:
    """`gang_moves.follow` looks at the others afterwards, in the same decision."""
    report = ending.report
    job = retry_limits.counted(draft, ending.job, ending.run, report)
    ending = replace(ending, job=job)
    if job.phase is JobPhase.STOPPING:
        runs.over(draft, job, JobPhase.CANCELLED, report)
        draft.because(job.id, Why.CANCELLED)
    elif report.reason is EndReason.FINISHED:
        _hold(draft, ending, failure="")
        if report.detail:
            draft.because(job.id, Why.OUTPUT_LEFT_OUT, detail=report.detail)
    elif ending.told_to_stop and report.reason in _AS_TOLD:
        _stopped_as_told(draft, ending)
    elif report.reason is EndReason.FAILED and gangs.interrupted(draft, job):
        code = "none" if report.exit_code is None else report.exit_code
        draft.because(job.id, Why.GANG_BROKEN, code=code)
        _interrupted(draft, ending)
    elif report.reason is EndReason.FAILED:
        _hold(draft, ending, failure=runs.failure_of(job, report))
    elif report.reason is EndReason.OUTPUT_LOST and _lost_too_often(draft, job):
        _hold(draft, ending, failure=retry_limits.output_lost_in_words(job, ending.run, report))
    elif gang_back.before_what_cannot_be_read(draft, job, ending.run, report):
        _goes_with_the_others(draft, replace(ending, job=draft.state.jobs[job.id]), Cause.SPOILED_SAVE)
    elif (why := retry_limits.used_up(job, report)) is not None:
        _hold(draft, ending, failure=why)
    else:
        _interrupted(draft, ending)


def _lost_too_often(draft: Draft, job: Job) -> bool:
    others = [one for one in gangs.members(draft, job) if one.id != job.id]
    return retry_limits.outputs_lost([job, *others])


def _interrupted(draft: Draft, ending: Ending) -> None:
    job, run, report = ending.job, ending.run, ending.report
    sending = report.reason is not EndReason.NODE_LOST  # of which nothing more is heard
    save = gangs.completing_save(draft, job, run) if sending else None
    interrupted(draft, job, run, report, save)


def _hold(draft: Draft, ending: Ending, *, failure: str) -> None:
    """What its program came to, until all have ended."""
    job, report = ending.job, ending.report
    seat = job.spec.seat
    assert seat is not None
    moving.abandon(draft, job)
    job = draft.state.jobs[job.id]
    draft.put(
        replace(
            job,
            phase=JOB.check(job.id, job.phase, JobPhase.FINISHING),
            exit_code=report.exit_code,
            output=report.output,
            failure=failure,
        )
    )
    draft.because(job.id, Why.GANG_ENDED, how=failure or report.reason.value, size=seat.size)


def _stopped_as_told(draft: Draft, ending: Ending) -> None:
    """For a failure of another it waits for the verdict; else it goes where the others go."""
    others = [one for one in gangs.members(draft, ending.job) if one.id != ending.job.id]
    failed = any(one.failure for one in others)
    if failed and not gangs.interrupted(draft, ending.job):
        _hold(draft, ending, failure="")
    else:
        _goes_with_the_others(draft, ending)


def _goes_with_the_others(draft: Draft, ending: Ending, cause: Cause = Cause.GANG) -> None:
    """From what it had saved before it was told to stop, once that has arrived, where all have that."""
    job, run = ending.job, ending.run
    phase = JOB.check(job.id, job.phase, JobPhase.MIGRATING)
    job = replace(job, phase=phase, waiting_since_s=draft.now_s)
    draft.put(job)
    save = gangs.completing_save(draft, job, run)
    migration = moving.migration_of(draft, job)
    if migration is None:
        begun = MigrationPhase.SEEKING if save is None else MigrationPhase.FLUSHING
        migration = moving.begin(draft, job, run, cause, phase=begun)
    stopped_s = endings.stood_still(draft, run, ending.report, migration)
    migration = replace(migration, stopped_s=stopped_s)
    draft.put(migration)
    if migration.phase is MigrationPhase.FLUSHING:
        _flushed_as_told(draft, migration, save)
    elif migration.phase is MigrationPhase.RESTARTING:
        seeking = MIGRATION.check(migration.id, migration.phase, MigrationPhase.SEEKING)
        draft.put(replace(migration, phase=seeking, destination=None, reserved_gpus=()))


def _flushed_as_told(draft: Draft, migration: Migration, save: Checkpoint | None) -> None:
    draft.put(migration)
    if save is not None:
        moving.await_save(draft, migration, save)
        return
    saved = migration.flush is not None and draft.state.checkpoints[migration.flush].phase
    if saved is not CheckpointPhase.DURABLE:  # else it goes on where its place was kept
        draft.put(replace(migration, destination=None, reserved_gpus=()))
    moving.seek(draft, draft.state.migrations[migration.id], fell_back=None)
