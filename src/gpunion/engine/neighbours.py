"""Passes it on: a machine was taken back, so guests of the same owner's other machines had better save."""

from __future__ import annotations

from gpunion.domain.node import Node, NodePhase
from gpunion.domain.run import Run, RunPhase
from gpunion.engine.draft import Draft
from gpunion.policy.scheduling.alarm import Alarm

_LENT = (NodePhase.SHARING, NodePhase.PAUSED)


def warn(draft: Draft) -> None:
    if not draft.policies.alarm.on:
        return
    labs = {
        node.facts.lab
        for former, node in draft.changed_nodes()
        if former is not None and former.phase in _LENT and node.phase not in _LENT
    }
    if labs:
        for node in draft.state.nodes.values():
            if node.facts.lab in labs and node.phase in _LENT:
                save_sooner(draft, node, draft.policies.alarm)


def save_sooner(draft: Draft, node: Node, alarm: Alarm) -> None:
    """Its guests, than planned."""
    if not alarm.on:
        return
    for run_id in sorted(draft.state.living.get(node.id, ())):
        run = draft.state.runs[run_id]
        key = f"checkpoint:{run.id}"
        planned_s = draft.timer_at(key) if draft.timer_set(key) else None
        if run.phase is not RunPhase.RUNNING or planned_s is None:
            continue
        due_s = alarm.due_s(now_s=draft.now_s, saved_s=_saved_s(draft, run), planned_s=planned_s)
        if due_s < planned_s:
            draft.set_timer(key, due_s)


def _saved_s(draft: Draft, run: Run) -> float:
    began_s = draft.now_s if run.started_s is None else run.started_s
    durable = draft.job_of(run).durable
    return began_s if durable is None else max(began_s, durable.at_s)
