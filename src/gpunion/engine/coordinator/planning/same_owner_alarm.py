"""Passes it on: a machine was taken back, so guests of the same owner's other machines had better save."""

from __future__ import annotations

from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.protocol.timers import SaveDue
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.runs.save_timer import bring_forward, saved_s

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
                _save_sooner(draft, node)


def _save_sooner(draft: Draft, node: Node) -> None:
    for run_id in sorted(draft.state.living.get(node.id, ())):
        run, planned_s = draft.state.runs[run_id], draft.timer_at(SaveDue(run_id=run_id))
        if planned_s is not None:
            alarm, saved = draft.policies.alarm, saved_s(draft, run)
            bring_forward(draft, run, alarm.due_s(now_s=draft.now_s, saved_s=saved, planned_s=planned_s))
