"""Runs that stand still in their machine's memory, as their agents report it.

A parked run keeps its place: its GPUs are not lent while their owner has them, and are its own again after.
Nobody asks it to save, and nobody moves it while it can go on where it is.
"""

from __future__ import annotations

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.reasons import Why
from gpunion.domain.replacing import replace
from gpunion.domain.reports import NoticeGiven, RunNotParked, RunParked, RunUnparked
from gpunion.domain.resources import GIB
from gpunion.domain.run import Run, RunPhase
from gpunion.engine.draft import Draft
from gpunion.engine.save_timer import set_checkpoint_timer


def announced(draft: Draft, node_id: NodeId, report: NoticeGiven) -> None:
    """Before anybody looks who has to be saved: these have not."""
    for run_id in report.parking:
        run = _running(draft, run_id)
        if run is not None and run.node_id == node_id and draft.job_of(run).migration is None:
            draft.cancel_timer(f"checkpoint:{run.id}")
            draft.put(replace(run, parking=True))


def parked(draft: Draft, report: RunParked) -> None:
    run = _running(draft, report.run_id)
    if run is None or run.epoch != report.epoch:
        return
    draft.put(replace(run, parking=True, parked_s=draft.now_s))
    gib = report.moved_bytes / GIB
    draft.because(run.job_id, Why.PARKED, node=run.node_id, gib=gib, took_s=report.took_s)


def not_parked(draft: Draft, report: RunNotParked) -> None:
    """From here on it is a run like any other: the planner looks at it in this very decision."""
    run = _running(draft, report.run_id)
    if run is None or run.epoch != report.epoch or not run.parking:
        return
    run = replace(run, parking=False, parked_s=None)
    draft.put(run)
    draft.because(run.job_id, Why.NOT_PARKED, node=run.node_id, detail=report.detail)
    set_checkpoint_timer(draft, run)


def unparked(draft: Draft, report: RunUnparked) -> None:
    run = _running(draft, report.run_id)
    if run is None or run.epoch != report.epoch:
        return
    run = replace(run, parking=False, parked_s=None)
    draft.put(run)
    draft.because(run.job_id, Why.UNPARKED, node=run.node_id, parked_s=report.parked_s)
    set_checkpoint_timer(draft, run)


def _running(draft: Draft, run_id: RunId) -> Run | None:
    run = draft.state.runs.get(run_id)
    return run if run is not None and run.phase is RunPhase.RUNNING else None
