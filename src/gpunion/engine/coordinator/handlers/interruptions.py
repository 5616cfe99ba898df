"""A run ended without its own will: its job goes on elsewhere, from what was saved or is on its way."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.jobs.checkpoint import Checkpoint, CheckpointPhase
from gpunion.domain.jobs.job import Avoidance, Job, JobPhase
from gpunion.domain.jobs.migration import Cause, Migration, MigrationPhase
from gpunion.domain.jobs.run import EndReason, Run
from gpunion.domain.protocol.reports import RunEnded
from gpunion.domain.reasons.wording import END_IN_WORDS, TROUBLE_IN_WORDS
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.runs import endings
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.engine.coordinator.runs import whole_guests as dumps
from gpunion.lifecycle.job import JOB
from gpunion.lifecycle.migration import MIGRATION

_CAUSES = {
    EndReason.DEADLINE: Cause.OWNER_RECLAIM,
    EndReason.OUTPUT_LOST: Cause.OUTPUT_LOST,
    EndReason.KILLED_BY_OWNER: Cause.OWNER_KILL,
    EndReason.LEASE_ENDED: Cause.LEASE_ENDED,
    EndReason.NODE_LOST: Cause.NODE_LOST,
    EndReason.SICK_GPU: Cause.SICK_GPU,
    EndReason.SAVED: Cause.SELF_SAVED,
    EndReason.REFUSED: Cause.START_TROUBLE,
    EndReason.START_FAILED: Cause.START_TROUBLE,
    EndReason.GUEST_LOST: Cause.GUEST_LOST,
    EndReason.STOPPED: Cause.GUEST_LOST,
    EndReason.FAILED: Cause.GUEST_LOST,  # of a gang: the others were gone
    EndReason.UNKNOWN: Cause.GUEST_LOST,
}
_SPEAK_AGAINST_THE_NODE = (
    EndReason.REFUSED,
    EndReason.START_FAILED,
    EndReason.GUEST_LOST,
    EndReason.OUTPUT_LOST,
)


def interrupted(
    draft: Draft, job: Job, run: Run, report: RunEnded, awaited: Checkpoint | None = None
) -> None:
    """It did not end by its own will: it goes on elsewhere, once `awaited` has arrived."""
    migration = moving.migration_of(draft, job)
    if migration is not None and migration.phase in (MigrationPhase.PARKING, MigrationPhase.PARKED):
        moving.abandon(draft, job)  # that was to end where it began: this is another story
        job = replace(job, migration=None)
    endings.say_why(draft, job, run, report)
    job = dumps.did_not(draft, _avoid(draft, job, run, report), run, report)
    draft.put(
        replace(
            job,
            phase=JOB.check(job.id, job.phase, JobPhase.MIGRATING),
            waiting_since_s=draft.now_s,
        )
    )
    job = draft.state.jobs[job.id]
    migration = moving.migration_of(draft, job)
    if migration is None:
        _begin_after_the_fact(draft, job, run, report, awaited)
    elif migration.phase is MigrationPhase.RESTARTING:
        phase = MIGRATION.check(migration.id, migration.phase, MigrationPhase.SEEKING)
        draft.put(replace(migration, phase=phase, destination=None, reserved_gpus=()))
    elif migration.phase is MigrationPhase.FLUSHING:
        _after_the_flush(draft, run, migration, report, awaited)


def _begin_after_the_fact(
    draft: Draft, job: Job, run: Run, report: RunEnded, awaited: Checkpoint | None
) -> None:
    """Nobody planned this one: the agent acted alone, or everything went at once."""
    # What an agent says a save was for is only said: a word that makes no sense ends nothing here.
    cause = _CAUSES.get(report.saved_for or report.reason, Cause.SELF_SAVED)
    if report.reason is EndReason.FAILED and job.spec.seat is None:
        cause = Cause.SPOILED_SAVE
    node = draft.state.nodes[run.node_id]
    if cause is Cause.SELF_SAVED and node.wanted_by_s(run.grant.gpu_indices) is not None:
        cause = Cause.OWNER_RECLAIM
    stopped_s = endings.stood_still(draft, run, report)
    on_its_way = awaited or _save_on_its_way(draft, run, report)
    if on_its_way is not None:
        migration = moving.begin(draft, job, run, cause, phase=MigrationPhase.FLUSHING, stopped_s=stopped_s)
        moving.await_save(draft, migration, on_its_way)
        return
    moving.begin(draft, job, run, cause, phase=MigrationPhase.SEEKING, stopped_s=stopped_s)


def _after_the_flush(
    draft: Draft, run: Run, migration: Migration, report: RunEnded, awaited: Checkpoint | None
) -> None:
    migration = replace(migration, stopped_s=endings.stood_still(draft, run, report, migration))
    draft.put(migration)
    checkpoint = None if migration.flush is None else draft.state.checkpoints[migration.flush]
    if checkpoint is None or checkpoint.phase is CheckpointPhase.FAILED:
        _without_the_flush(draft, run, migration, report, awaited)
    elif checkpoint.phase is CheckpointPhase.DURABLE:
        moving.seek(draft, migration, fell_back=None)
    elif report.reason is EndReason.NODE_LOST:
        moving.seek(draft, migration, fell_back=END_IN_WORDS[report.reason])


def _without_the_flush(
    draft: Draft, run: Run, migration: Migration, report: RunEnded, awaited: Checkpoint | None
) -> None:
    """What was asked for did not come about, but the agent or the program may have saved unasked."""
    on_its_way = awaited or _save_on_its_way(draft, run, report)
    if on_its_way is not None:
        moving.await_save(draft, migration, on_its_way)
        return
    durable = draft.job_of(run).durable
    newest = None if durable is None else draft.state.checkpoints.get(durable.checkpoint_id)
    if newest is not None and newest.run_id == run.id and newest.final:
        moving.seek(draft, migration, fell_back=None)
        return
    asked = None if migration.flush is None else draft.state.checkpoints[migration.flush]
    trouble = None if asked is None else asked.trouble
    why = END_IN_WORDS[report.reason] if trouble is None else TROUBLE_IN_WORDS[trouble]
    moving.seek(draft, migration, fell_back=why)


def _save_on_its_way(draft: Draft, run: Run, report: RunEnded) -> Checkpoint | None:
    """A run that ended saved has written a last checkpoint; it may still be on its way to the vault."""
    if report.reason is not EndReason.SAVED:
        return None
    unsettled = (draft.state.checkpoints[c] for c in draft.state.unsettled.get(run.id, ()))
    pending = [checkpoint for checkpoint in unsettled if checkpoint.phase is CheckpointPhase.CAPTURED]
    return max(pending, key=lambda c: (c.step, c.id), default=None)


def _avoid(draft: Draft, job: Job, run: Run, report: RunEnded) -> Job:
    if report.reason not in _SPEAK_AGAINST_THE_NODE:
        return job
    avoid = [a for a in job.avoid if a.until_s > draft.now_s and a.node_id != run.node_id]
    avoid.append(Avoidance(node_id=run.node_id, until_s=draft.now_s + draft.timing.avoid_s))
    failures = job.start_failures + (report.reason is EndReason.START_FAILED)
    return replace(job, avoid=tuple(avoid), start_failures=failures)
