"""Interruptions: how a job leaves one node and goes on at another.

Reclaim, loss and homecoming take the same road. A migration begins either with a last save under way
(`flushing`) or, when there is nothing left to save, looking for a place at once (`seeking`).
"""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import NodeId, checkpoint_id, migration_id, run_id
from gpunion.domain.jobs.checkpoint import Checkpoint, CheckpointPhase, Counted
from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.jobs.migration import Cause, Migration, MigrationPhase
from gpunion.domain.jobs.run import EndReason, Run, RunPhase
from gpunion.domain.protocol.orders import TakeCheckpoint
from gpunion.domain.protocol.timers import LastSaveOverdue, SaveDue
from gpunion.domain.reasons.reason import Why
from gpunion.domain.system_tier import Tier
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.runs import gang_members as gangs
from gpunion.engine.coordinator.runs import whole_guests as dumps
from gpunion.engine.coordinator.runs.checkpoint_fallback import kept_from
from gpunion.engine.coordinator.state import CampusState
from gpunion.lifecycle.job import JOB
from gpunion.lifecycle.migration import MIGRATION
from gpunion.lifecycle.run import RUN
from gpunion.text import duration_in_words

# A flush without an owner's deadline (homecoming) is given up after the save timeout, this, and twice what
# sending should take: as long as nobody wants the machine, waiting costs less than doing the work again.
FLUSH_GUARD_S = 30.0
SENDING_SLACK = 2.0
SLOWEST_BPS = 100e6
# After an owner's deadline the agent says what became of the flush; this long is waited for its word.
WORD_GUARD_S = 5.0


def current_run(draft: Draft, job: Job) -> Run | None:
    if job.epoch == 0:
        return None
    run = draft.state.runs.get(run_id(job.id, job.epoch))
    return run if run is not None and run.living else None


def migration_of(draft: Draft, job: Job) -> Migration | None:
    return None if job.migration is None else draft.state.migrations[job.migration]


def stands_still(draft: Draft, job: Job) -> bool:
    """In the memory of its machine, for a job of a higher class."""
    migration = migration_of(draft, job)
    return migration is not None and migration.phase is MigrationPhase.PARKED


def begin(
    draft: Draft,
    job: Job,
    run: Run,
    cause: Cause,
    *,
    phase: MigrationPhase,
    deadline_s: float | None = None,
    stopped_s: float | None = None,
) -> Migration:
    number = job.migrations + 1
    migration = Migration(
        id=migration_id(job.id, number),
        job_id=job.id,
        source_run=run.id,
        source_node=run.node_id,
        cause=cause,
        phase=phase,
        started_s=draft.now_s,
        deadline_s=deadline_s,
        stopped_s=stopped_s,
    )
    draft.put(migration)
    draft.put(replace(job, migration=migration.id, migrations=number))
    return migration


def flush(
    draft: Draft,
    run: Run,
    cause: Cause,
    *,
    rate_bps: float,
    deadline_s: float | None,
    destination: NodeId | None,
    reserved_gpus: tuple[int, ...],
    sent_by_s: float | None = None,
    final: bool = True,
    dump: bool = False,
) -> None:
    """Asks for the last save and keeps a place at the destination.

    `sent_by_s`: a later moment than the deadline, where only the saving has to be over by then. Not `final`:
    it is asked for and sent as any other save, and the run is told to stop once it has saved. `dump`: all of
    it as it is. An interruption that has begun without a last save goes on with this one.
    """
    job = draft.job_of(run)
    migration = migration_of(draft, job)
    if migration is None:
        migration = begin(draft, job, run, cause, phase=MigrationPhase.FLUSHING, deadline_s=deadline_s)
    else:
        phase = MIGRATION.check(migration.id, migration.phase, MigrationPhase.FLUSHING)
        migration = replace(migration, phase=phase)
    checkpoint = request_checkpoint(draft, run, final=final, by_s=deadline_s, rate_bps=rate_bps, dump=dump)
    draft.put(replace(migration, flush=checkpoint.id, destination=destination, reserved_gpus=reserved_gpus))
    job = draft.job_of(run)
    run = draft.state.runs[run.id]
    draft.put(replace(job, phase=JOB.check(job.id, job.phase, JobPhase.LEAVING)))
    draft.put(replace(run, phase=RUN.check(run.id, run.phase, RunPhase.LEAVING)))
    draft.cancel_timer(SaveDue(run_id=run.id))
    if deadline_s is not None:
        overdue_s = (deadline_s if sent_by_s is None else sent_by_s) + WORD_GUARD_S
    else:
        overdue_s = draft.now_s + draft.timing.save_timeout_s + sent_within_s(job, rate_bps)
    draft.set_timer(LastSaveOverdue(migration_id=migration.id), overdue_s)


def sent_within_s(job: Job, rate_bps: float, size_bytes: int = 0) -> float:
    """How long the last save of a job may be on its way. A rate of zero is whatever the wire gives."""
    ship_bytes = max(job.cost.ship_bytes, size_bytes)
    return FLUSH_GUARD_S + SENDING_SLACK * 8.0 * ship_bytes / max(rate_bps, SLOWEST_BPS)


def await_save(draft: Draft, migration: Migration, checkpoint: Checkpoint) -> None:
    """The last save of a run that has ended is on its way."""
    draft.put(replace(migration, flush=checkpoint.id))
    job = draft.state.jobs[migration.job_id]
    sent_s = sent_within_s(job, checkpoint.rate_bps, checkpoint.size_bytes)
    draft.set_timer(
        LastSaveOverdue(migration_id=migration.id), draft.now_s + draft.timing.save_timeout_s + sent_s
    )


def request_checkpoint(
    draft: Draft, run: Run, *, final: bool, by_s: float | None, rate_bps: float, dump: bool = False
) -> Checkpoint:
    job, number = draft.job_of(run), run.checkpoints + 1
    by_s = gangs.saved_by_s(draft, job, by_s)
    checkpoint = Checkpoint(
        id=checkpoint_id(run.id, number),
        job_id=run.job_id,
        run_id=run.id,
        epoch=run.epoch,
        phase=CheckpointPhase.REQUESTED,
        requested_s=draft.now_s,
        final=final,
        rate_bps=rate_bps,
        by_s=by_s,
    )
    draft.put(checkpoint)
    draft.put(replace(run, checkpoints=number))
    draft.order(
        run.node_id,
        TakeCheckpoint(
            run_id=run.id,
            job_id=run.job_id,
            epoch=run.epoch,
            checkpoint_id=checkpoint.id,
            final=final,
            by_s=by_s,
            rate_bps=rate_bps,
            at_step=gangs.step_to_save(draft, job),
            keep=kept_from(job),
            whole=dumps.may_be_whole(draft, job, run),
            dump=dump,
        ),
    )
    return checkpoint


def seek(draft: Draft, migration: Migration, *, fell_back: str | None) -> None:
    """The last save has arrived, or is given up (`fell_back` says why): from here on a place will do."""
    if migration.phase is not MigrationPhase.FLUSHING:
        return
    draft.cancel_timer(LastSaveOverdue(migration_id=migration.id))
    phase = MIGRATION.check(migration.id, migration.phase, MigrationPhase.SEEKING)
    draft.put(replace(migration, phase=phase, fell_back=fell_back is not None))
    draft.seeking.add(migration.job_id)
    if fell_back is not None:
        durable = draft.durable_step(migration.job_id)
        draft.because(migration.job_id, Why.FELL_BACK, trouble=fell_back, durable=durable)


def stay(draft: Draft, run: Run) -> None:
    """The last save failed but nobody needs the node: the run goes on where it is. One that has given its
    place away stands still on."""
    job = draft.job_of(run)
    migration = migration_of(draft, job)
    if run.gave_place and migration is not None:
        draft.cancel_timer(LastSaveOverdue(migration_id=migration.id))
        phase = MIGRATION.check(migration.id, migration.phase, MigrationPhase.PARKED)
        draft.put(replace(migration, phase=phase, flush=None, destination=None, reserved_gpus=()))
    else:
        abandon(draft, job)
    job = draft.job_of(run)
    draft.put(replace(job, phase=JOB.check(job.id, job.phase, JobPhase.RUNNING)))
    draft.put(replace(run, phase=RUN.check(run.id, run.phase, RunPhase.RUNNING)))


def abandon(draft: Draft, job: Job) -> None:
    migration = migration_of(draft, job)
    if migration is None:
        return
    draft.cancel_timer(LastSaveOverdue(migration_id=migration.id))
    phase = MIGRATION.check(migration.id, migration.phase, MigrationPhase.ABANDONED)
    draft.put(replace(migration, phase=phase))
    draft.put(replace(job, migration=None))


def arrived(draft: Draft, job: Job, run: Run) -> None:
    """The job runs again: the interruption is over and can be told."""
    migration = migration_of(draft, job)
    if migration is None:
        return
    source = draft.state.runs[migration.source_run]
    redone = max(0, draft.known_step(source) - run.resumed_step)
    resumed_from = None if run.restored_from is None else draft.state.checkpoints.get(run.restored_from)
    counted = Counted.STEPS if job.spec.checkpoint.counts_steps else Counted.UNKNOWN
    if resumed_from is not None:
        counted = Counted.STEPS if resumed_from.tier is Tier.SYSTEM else resumed_from.counted or counted
    done = replace(
        migration,
        phase=MIGRATION.check(migration.id, migration.phase, MigrationPhase.DONE),
        destination=run.node_id,
        reserved_gpus=(),
        resumed_s=draft.now_s,
        steps_redone=redone,
        counted=counted,
        tier=None if resumed_from is None else resumed_from.tier,
    )
    draft.put(done)
    draft.put(replace(job, migration=None))
    if not moved_off(draft.state, done):
        return  # that it has started is told already, and where it never ran it stood still for nobody
    # A program that counts no steps has none to do again, and yet begins anew.
    # What it goes on from may be known to the vault alone, where a database was put back from a backup.
    anew = run.restored_from is None and redone == 0
    if anew or counted is Counted.STEPS:
        _tell_arrival(draft, done, anew=anew, source=source)
    else:
        _tell_uncounted(draft, done)


def _tell_uncounted(draft: Draft, done: Migration) -> None:
    """Of a program that is saved from outside and tells no steps."""
    again = "how much of its work is done again is not known: its save does not say how old it is"
    if done.counted is Counted.SECONDS:
        again = f"about {duration_in_words(done.steps_redone)} of its work to redo"
    job_id, left, node = done.job_id, done.source_node, done.destination or ""
    downtime_s = done.downtime_s or 0.0
    if done.went_elsewhere:
        draft.because(job_id, Why.MOVED_UNCOUNTED, source=left, node=node, downtime_s=downtime_s, again=again)
    else:
        draft.because(job_id, Why.RUNS_AGAIN_UNCOUNTED, node=node, downtime_s=downtime_s, again=again)


def _tell_arrival(draft: Draft, done: Migration, *, anew: bool, source: Run) -> None:
    job_id, left, node = done.job_id, done.source_node, done.destination or ""
    downtime_s, redone = done.downtime_s or 0.0, done.steps_redone
    # Its guest worked on until its lease ended, and nobody has told us how far it got.
    heard = {"heard_step": draft.known_step(source)} if source.end_reason is EndReason.NODE_LOST else {}
    if done.went_elsewhere and anew:
        draft.because(job_id, Why.MOVED_ANEW, source=left, node=node, downtime_s=downtime_s)
    elif done.went_elsewhere:
        draft.because(
            job_id, Why.MOVED, source=left, node=node, downtime_s=downtime_s, redone=redone, **heard
        )
    elif anew:
        draft.because(job_id, Why.RUNS_AGAIN_ANEW, node=node, downtime_s=downtime_s)
    else:
        draft.because(job_id, Why.RUNS_AGAIN, node=node, downtime_s=downtime_s, redone=redone, **heard)


def heard_after_all(draft: Draft, run: Run, last_step: int) -> dict[str, int]:
    """How far a run got that was given up, where its machine tells so when it is back; what was decided of it
    meanwhile stays."""
    if run.end_reason is not EndReason.NODE_LOST or last_step <= run.last_step:
        return {}
    job = draft.job_of(run)
    if not job.spec.checkpoint.counts_steps:
        return {}
    later = (draft.state.runs.get(run_id(job.id, epoch)) for epoch in range(run.epoch + 1, job.epoch + 1))
    heir = next((one for one in later if one is not None and one.started_s is not None), None)
    redone = {} if heir is None else {"redone": max(0, last_step - heir.resumed_step)}
    return {"reached": last_step, **redone}


def moves(draft: Draft, job: Job) -> int:
    """How often it went on elsewhere so far."""
    ids = (migration_id(job.id, number) for number in range(1, job.migrations + 1))
    done = (draft.state.migrations[id] for id in ids)
    return sum(one.went_elsewhere and moved_off(draft.state, one) for one in done)


def moved_off(state: CampusState, migration: Migration) -> bool:
    """Whether there was anything to move: a run that was refused, or lost with its machine before it began,
    leaves its job where it was, waiting."""
    source = state.runs.get(migration.source_run)
    return source is None or source.started_s is not None
