"""What an owner's terms say of a node, as its agent reports it: who may stay, until when it is lent."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import NodeId
from gpunion.domain.protocol.reports import DepartureForetold, GuestAskedToGo, TermsChanged
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.handlers.nodes import stay_if_they_can
from gpunion.engine.coordinator.runs import evacuation


def said(draft: Draft, node_id: NodeId, report: TermsChanged | DepartureForetold | GuestAskedToGo) -> None:
    node = draft.state.nodes.get(node_id)
    if node is None:
        draft.because(node_id, Why.UNKNOWN_NODE)
        return
    match report:
        case TermsChanged():
            draft.put(replace(node, facts=replace(node.facts, terms=report.terms)))
            draft.because(node.id, Why.TERMS_CHANGED, node=node.id, said=report.said)
            evacuation.look(draft, node_id)
        case DepartureForetold():
            draft.put(replace(node, known_end_s=report.at_s, not_lent_because=report.because))
            evacuation.look(draft, node_id)
        case GuestAskedToGo():
            _asked_to_go(draft, node_id, report)


def _asked_to_go(draft: Draft, node_id: NodeId, report: GuestAskedToGo) -> None:
    run = draft.state.runs[report.run_id]
    if not run.living:
        return
    run = replace(run, wanted_by_s=report.deadline_s, wanted_why=report.detail)
    draft.put(run)
    if report.deadline_s is None:
        draft.put(replace(run, told_of_s=None))
        draft.because(run.job_id, Why.MAY_STAY, node=node_id)
        stay_if_they_can(draft, draft.state.nodes[node_id])
