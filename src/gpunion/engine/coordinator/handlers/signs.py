"""Signs of owners: told by agents, counted until they are over, and what guests do about them.

Nobody is told of them: not in a story, nor in a list of machines. What a guest sees is that it was asked to
save.
"""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.lending import CampusMemory, Lending
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.nodes.signs import in_order
from gpunion.domain.protocol.reports import SignsShown
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.runs.save_timer import save_as_often_as_it_pays_now
from gpunion.policy.hazard.signs import LEAD_S, book_of_signs


def shown(draft: Draft, node_id: NodeId, report: SignsShown) -> None:
    node = draft.state.nodes.get(node_id)
    if node is None:
        draft.because(node_id, Why.UNKNOWN_NODE)
        return
    signs = None if report.signs is None else in_order(frozenset(report.signs))
    if signs == node.signs:
        return
    _count_until_now(draft, node)
    lasted = draft.now_s - node.signs_since_s >= LEAD_S
    before = node.signs if lasted else node.signs_before
    now = replace(node, signs=signs, signs_since_s=draft.now_s, signs_before=before)
    draft.put(now)
    if _is_likelier(draft, node, now):
        for run_id in sorted(draft.state.living.get(node.id, ())):
            save_as_often_as_it_pays_now(draft, draft.state.runs[run_id])


def forgotten(draft: Draft, node: Node) -> Node:
    """Its agent greets: it may have changed its mind about telling, and says so again if it has not."""
    if node.signs is None:
        return node
    _count_until_now(draft, node)
    node = replace(node, signs=None, signs_before=None)
    draft.put(node)
    return node


def count(draft: Draft, node: Node, lending: Lending, until_s: float, *, departed: bool) -> None:
    """A time is over in which the node was lent and showed these signs; up to its last lesson it counts."""
    learning = draft.policies.learning
    if node.signs is None or lending.free_since_s is None or learning is None:
        return
    from_s = max(node.signs_since_s, lending.free_since_s, lending.counted_s)
    until_s = max(from_s, until_s)
    memories = draft.state.memories
    expected = memories.hazard(learning).expected(node, from_s, until_s, free_since_s=lending.free_since_s)
    campus = memories.campus or CampusMemory(began_s=draft.now_s)
    book = book_of_signs(campus.signs, campus.signs_as_of_s)
    book = book.seen(node.signs, departed=False, expected=expected, at_s=until_s)
    if departed:
        in_time = until_s - node.signs_since_s >= LEAD_S or node.signs_before is None
        announced_by = node.signs if in_time else node.signs_before or ()
        book = book.seen(announced_by, departed=True, expected=0.0, at_s=until_s)
    draft.put(replace(campus, signs=book.records(), signs_as_of_s=book.as_of_s))


def _count_until_now(draft: Draft, node: Node) -> None:
    """Not the time of a silence, nor up to it: it may turn out to have been a departure."""
    lending = draft.state.memories.lendings.get(node.id)
    if lending is not None and node.phase is not NodePhase.SILENT:
        count(draft, node, lending, draft.now_s, departed=False)


def _is_likelier(draft: Draft, former: Node, node: Node) -> bool:
    """Whether its owner is likelier to come than before its signs changed. That an agent begins to tell of
    them, as after every greeting, is no news of its owner."""
    learning = draft.policies.learning
    if learning is None or former.signs is None or node.signs is None:
        return False
    hazard = draft.state.memories.hazard(learning)
    return hazard.factor(node.signs) > hazard.factor(former.signs)
