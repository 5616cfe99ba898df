"""Runs that stand still in their machine's memory, as their agents report it.

One that is parked for its owner keeps its place: its GPUs are not lent while their owner has them, and are
its own again after. Nobody asks it to save, and nobody moves it while it can go on where it is. One that is
parked for a job of a higher class has given its place away (`planning/parked_places`).
"""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import RunId
from gpunion.domain.jobs.migration import Migration, MigrationPhase
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.nodes.node import NodePhase, Pace
from gpunion.domain.nodes.withheld import GpuPhase
from gpunion.domain.protocol.orders import UnparkRun
from gpunion.domain.protocol.reports import NoticeGiven, RunNotParked, RunParked, RunUnparked
from gpunion.domain.protocol.timers import LastSaveOverdue, ParkedLongEnough, SaveDue
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import GIB
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning import leaving
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.engine.coordinator.runs.save_timer import set_checkpoint_timer
from gpunion.engine.coordinator.windows import ends
from gpunion.lifecycle.migration import MIGRATION

_THERE = (RunPhase.RUNNING, RunPhase.LEAVING)
_LENT = (NodePhase.SHARING, NodePhase.PAUSED)


def announced(draft: Draft, report: NoticeGiven) -> None:
    """Before anybody looks who has to be saved: these have not."""
    for run_id in report.parking:
        run = _running(draft, run_id)
        if run is not None and draft.job_of(run).migration is None:
            draft.cancel_timer(SaveDue(run_id=run.id))
            draft.put(replace(run, parking=True))


def parked(draft: Draft, report: RunParked) -> None:
    run = draft.state.runs.get(report.run_id)
    if run is None or run.phase not in _THERE:
        return
    migration = moving.migration_of(draft, draft.job_of(run))
    standing = replace(run, parking=True, parked_s=draft.now_s, parked_bytes=report.moved_bytes)
    gib = report.moved_bytes / GIB
    if migration is not None and migration.phase is MigrationPhase.PARKING:
        draft.put(standing)
        _made_room(draft, standing, migration)
        whom = str(migration.room_for)
        draft.because(run.job_id, Why.PARKED_FOR, node=run.node_id, gib=gib, took_s=report.took_s, job=whom)
    else:
        if migration is None:
            draft.put(standing)
        if not _is_for_its_owner(draft, run):
            _send_back(draft, run)
        elif migration is None:
            draft.because(run.job_id, Why.PARKED, node=run.node_id, gib=gib, took_s=report.took_s)
    node = draft.state.nodes[run.node_id]
    known = node.parks or Pace(took_s=report.took_s, size_bytes=report.moved_bytes)
    draft.put(replace(node, parks=known.with_seen(report.took_s, report.moved_bytes)))


def _is_for_its_owner(draft: Draft, run: Run) -> bool:
    """As was announced, or as its machine is now. Else it stands there for a job that does not wait for it
    any more, and nobody would ever tell it to go on."""
    node = draft.state.nodes[run.node_id]
    held = {gpu.index for gpu in node.withheld if gpu.phase is not GpuPhase.PAUSED}
    return run.parking or node.phase not in _LENT or not held.isdisjoint(run.grant.gpu_indices)


def _send_back(draft: Draft, run: Run) -> None:
    draft.order(run.node_id, UnparkRun(run_id=run.id, job_id=run.job_id, epoch=run.epoch))


def _made_room(draft: Draft, run: Run, migration: Migration) -> None:
    draft.cancel_timer(LastSaveOverdue(migration_id=migration.id))
    phase = MIGRATION.check(migration.id, migration.phase, MigrationPhase.PARKED)
    draft.put(replace(migration, phase=phase, stopped_s=draft.now_s, left_s=draft.now_s))
    draft.set_timer(ParkedLongEnough(run_id=run.id), draft.now_s + draft.timing.parked_at_most_s)


def not_parked(draft: Draft, report: RunNotParked) -> None:
    """From here on it is a run like any other: the planner looks at it in this very decision."""
    run = _running(draft, report.run_id)
    if run is None or not run.parking:
        return
    migration = moving.migration_of(draft, draft.job_of(run))
    if migration is None:
        run = replace(run, parking=False, parked_s=None)
        draft.put(run)
        draft.because(run.job_id, Why.NOT_PARKED, node=run.node_id, detail=report.detail)
        set_checkpoint_timer(draft, run)
    elif migration.phase is MigrationPhase.PARKING:
        leaving.not_parked(draft, run, migration, report.detail)


def no_word(draft: Draft, migration: Migration) -> None:
    """Of whether it was parked: whoever waits is better served in another way. It may stand still by now, or
    will, since the order may be on its way yet."""
    run = _running(draft, migration.source_run)
    if run is not None:
        _send_back(draft, run)
        leaving.not_parked(draft, run, migration, "nothing was heard of it")


def unparked(draft: Draft, report: RunUnparked) -> None:
    run = _running(draft, report.run_id)
    if run is None or run.gave_place:
        return  # nobody told it to: it may not have what others have
    stood_s = None if run.parked_s is None else report.parked_s
    run = replace(run, parking=False, parked_s=None)
    draft.put(run)
    ends.if_over_afresh(draft, run)
    job = draft.job_of(run)
    migration = moving.migration_of(draft, job)
    if migration is not None and migration.phase is MigrationPhase.RESTARTING:
        phase = MIGRATION.check(migration.id, migration.phase, MigrationPhase.DONE)
        draft.put(replace(migration, phase=phase, resumed_s=draft.now_s))
        draft.put(replace(job, migration=None))
    if stood_s is not None:
        draft.because(run.job_id, Why.UNPARKED, node=run.node_id, parked_s=stood_s)
        node = draft.state.nodes[run.node_id]
        known = node.unparks or Pace(took_s=report.took_s, size_bytes=run.parked_bytes)
        draft.put(replace(node, unparks=known.with_seen(report.took_s, run.parked_bytes)))
    if moving.migration_of(draft, draft.job_of(run)) is None:
        set_checkpoint_timer(draft, run)


def _running(draft: Draft, run_id: RunId) -> Run | None:
    run = draft.state.runs.get(run_id)
    return run if run is not None and run.phase is RunPhase.RUNNING else None
