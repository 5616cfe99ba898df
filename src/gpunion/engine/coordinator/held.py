"""Jobs that are held: what is kept of them could not be read, so nothing about them is decided but their end.

Their runs may be alive. Those are neither ended, since nobody can tell what of them is saved, nor replaced:
the machine goes on with them under its lease, by itself, and they keep what they were granted until it says
that they have ended, or greets without them.
"""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.held import HeldJob
from gpunion.domain.jobs.run import Run
from gpunion.domain.protocol.events import NodeJoined
from gpunion.domain.protocol.orders import StopRun
from gpunion.domain.protocol.reports import Report, RunEnded, RunStarted
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.state import CampusState


def of_report(state: CampusState, report: Report) -> HeldJob | None:
    if not state.held:
        return None
    return state.held.get(getattr(report, "job_id", JobId("")))


def said(draft: Draft, node_id: NodeId, held: HeldJob, report: Report) -> None:
    """Only an end is of interest; what it saves lies in the vault, known to us or not."""
    match report:
        case RunEnded(run_id=run_id, reason=reason) if held.may_run_on(node_id):
            runs = tuple(run for run in held.runs if run.id != run_id or run.node_id != node_id)
            nodes = tuple(node for node in held.nodes if node != node_id)
            _change(draft, held, runs, nodes)
            draft.because(held.id, Why.HELD_RUN_ENDED, node=node_id, how=reason.value)
        case RunStarted(run_id=run_id, epoch=epoch) if held.given_up:
            draft.order(node_id, StopRun(run_id=run_id, job_id=held.id, epoch=epoch))
        case _:
            pass


def joined(draft: Draft, event: NodeJoined) -> None:
    """A machine says which guests it has: those, and no others, are alive there."""
    for held in list(draft.state.held.values()):
        here = {run_id: _epoch(held.id, run_id) for run_id in event.guests}
        mine = {run_id: epoch for run_id, epoch in here.items() if epoch is not None}
        if not mine and not held.may_run_on(event.node_id):
            continue
        runs = tuple(run for run in held.runs if run.node_id != event.node_id or run.id in mine)
        nodes = tuple(node for node in held.nodes if node != event.node_id)
        if mine.keys() - {run.id for run in runs}:
            nodes = (*nodes, event.node_id)  # nobody knows what these were granted
        _change(draft, held, runs, nodes)
        if held.given_up:
            for run_id, epoch in sorted(mine.items()):
                draft.order(event.node_id, StopRun(run_id=run_id, job_id=held.id, epoch=epoch or 0))


def give_up(draft: Draft, held: HeldJob) -> None:
    """By its user's word: its runs are stopped, and nothing of it is ever started again."""
    if held.given_up:
        draft.because(held.id, Why.ALREADY_OVER, phase="cancelled")
        return
    draft.put(replace(held, given_up=True))
    draft.because(held.id, Why.HELD_GIVEN_UP)
    for run in held.runs:
        draft.order(run.node_id, StopRun(run_id=run.id, job_id=held.id, epoch=run.epoch))


def told(draft: Draft) -> None:
    """Once a start."""
    for held in draft.state.held.values():
        if not held.given_up:
            draft.because(held.id, Why.JOB_HELD, detail=held.why)


def _change(draft: Draft, held: HeldJob, runs: tuple[Run, ...], nodes: tuple[NodeId, ...]) -> None:
    if (runs, nodes) != (held.runs, held.nodes):
        draft.put(replace(held, runs=runs, nodes=nodes))


def _epoch(job_id: JobId, run_id: str) -> int | None:
    """Of a run of this job; None of any other's."""
    prefix = f"{job_id}-e"
    number = run_id.removeprefix(prefix)
    return int(number) if number != run_id and number.isdecimal() else None
