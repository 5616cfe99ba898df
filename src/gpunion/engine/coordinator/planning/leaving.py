"""Has a guest leave its GPUs for a job of a higher class: parked, dumped, saved by its program, or ended."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.jobs.migration import Cause, Migration, MigrationPhase, Way
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.protocol.orders import ParkRun
from gpunion.domain.protocol.timers import LastSaveOverdue, SaveDue
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning import gang_moves
from gpunion.engine.coordinator.planning.departures import active_flush_bps
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.engine.coordinator.runs.save_timer import saved_s, set_checkpoint_timer
from gpunion.engine.coordinator.runs.ways_to_leave import ways_to_leave
from gpunion.lifecycle.job import JOB
from gpunion.lifecycle.run import RUN
from gpunion.policy.bandwidth import reclaim_cap_bps
from gpunion.policy.preemption import Candidate

# An agent gives it up by itself after a minute; one that says nothing of it is not waited for.
NO_WORD_S = 90.0

# Words that follow "it", and, for several, "who makes room".
HOW = {
    Way.PARK: "is parked in its memory first",
    Way.DUMP: "is dumped whole first",
    Way.SAVE: "is saved first",
    Way.UNSAVED: "cannot be saved and is ended, as it was handed in with --preemptible",
}


def leave(draft: Draft, run: Run, room_for: Job, way: Way, *, rate_bps: float) -> None:
    draft.because(
        run.job_id,
        Why.MADE_ROOM,
        job=room_for.id,
        urgent=room_for.spec.priority.name.lower(),
        node=run.node_id,
        how=HOW[way],
        unsaved_s=draft.now_s - saved_s(draft, run),
    )
    if way is Way.PARK:
        _park(draft, run, room_for)
    else:
        _go(draft, run, way, rate_bps)
    migration = moving.migration_of(draft, draft.job_of(run))
    assert migration is not None
    draft.put(replace(migration, room_for=room_for.id, way=way))


def not_parked(draft: Draft, run: Run, migration: Migration, detail: str) -> None:
    """It leaves in the next best way for whoever waits; or stays, and somebody else makes room."""
    run = replace(run, parking=False, parked_s=None, ways_failed=(*run.ways_failed, Way.PARK))
    draft.put(run)
    draft.cancel_timer(LastSaveOverdue(migration_id=migration.id))
    way = None if _nobody_needs_it(draft, run, migration) else _next_way(draft, run)
    how = "it goes on there" if way is None else f"it {HOW[way].removesuffix(' first')} instead"
    draft.because(run.job_id, Why.NOT_PARKED_FOR, node=run.node_id, detail=detail, how=how)
    if way is None:
        moving.abandon(draft, draft.job_of(run))
        set_checkpoint_timer(draft, run)
        return
    _go(draft, run, way, _spare_bps(draft, run))
    draft.put(replace(draft.state.migrations[migration.id], way=way))


def _park(draft: Draft, run: Run, room_for: Job) -> None:
    job = draft.job_of(run)
    migration = moving.begin(draft, job, run, Cause.PREEMPTED, phase=MigrationPhase.PARKING)
    draft.cancel_timer(SaveDue(run_id=run.id))
    draft.put(replace(draft.state.runs[run.id], parking=True))
    draft.order(run.node_id, ParkRun(run_id=run.id, job_id=run.job_id, epoch=run.epoch, room_for=room_for.id))
    draft.set_timer(LastSaveOverdue(migration_id=migration.id), draft.now_s + NO_WORD_S)


def _go(draft: Draft, run: Run, way: Way, rate_bps: float) -> None:
    if way is not Way.UNSAVED:
        moving.flush(
            draft,
            run,
            Cause.PREEMPTED,
            rate_bps=rate_bps,
            deadline_s=None,
            destination=None,
            reserved_gpus=(),
            dump=way is Way.DUMP,
        )
        return
    job = draft.job_of(run)
    moving.abandon(draft, job)
    job = draft.job_of(run)
    moving.begin(draft, job, run, Cause.PREEMPTED, phase=MigrationPhase.FLUSHING)
    job, run = draft.job_of(run), draft.state.runs[run.id]
    draft.put(replace(job, phase=JOB.check(job.id, job.phase, JobPhase.LEAVING)))
    run = replace(run, phase=RUN.check(run.id, run.phase, RunPhase.LEAVING))
    draft.put(run)
    gang_moves.stop(draft, run)


def _nobody_needs_it(draft: Draft, run: Run, migration: Migration) -> bool:
    """Or its owner wants what it has, and the planner has it leave for them."""
    node, whom = draft.state.nodes[run.node_id], migration.room_for
    wanted = node.wanted_by_s(run.held_gpus) is not None or run.wanted_by_s is not None
    other = None if whom is None else draft.state.jobs.get(whom)
    needed = other is not None and (other.phase.waiting or moving.stands_still(draft, other))
    return wanted or not needed


def _next_way(draft: Draft, run: Run) -> Way | None:
    node, job = draft.state.nodes[run.node_id], draft.job_of(run)
    ways = ways_to_leave(draft, node, run)
    able = Candidate(
        run_id=run.id,
        priority=int(job.spec.priority),
        weight=1.0,
        ways=ways,
        unsaved_s=draft.now_s - saved_s(draft, run),
        remaining_s=None,
        settled_s=None,
        started_s=0.0,
    ).leaving
    sends = able is not None and able.way is not Way.UNSAVED
    return None if able is None or (sends and _spare_bps(draft, run) <= 0) else able.way


def _spare_bps(draft: Draft, run: Run) -> float:
    node = draft.state.nodes[run.node_id]
    return reclaim_cap_bps(node.facts.lent_uplink_bps) - active_flush_bps(draft, node.id)
