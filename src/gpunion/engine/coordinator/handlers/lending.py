"""Follows how nodes come and go, and draws a lesson from it now and then.

Every event costs the same however long the past is: a node's open time is closed, or opened. Lessons look at
a few dozen nodes at a time, so that no heartbeat waits for them.
"""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.lending import CampusMemory, Foretold, Lending, LentSpan
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.protocol.timers import LessonDue
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.handlers import signs
from gpunion.policy.checkpoint_timing.notices import NoticeBook
from gpunion.policy.hazard import calibration
from gpunion.policy.hazard.memory import evidence_of, history_of, memory_of
from gpunion.policy.learning import Learning

# A few milliseconds each; then whoever waits has a turn.
NODES_AT_ONCE = 32
BETWEEN_S = 1.0
# An owner who comes and goes more often than this between two lessons brings the next one on.
RECENT_MOST = 64
# A coordinator that was away for longer does not know who was lent meanwhile: that time counts for nothing.
OUTAGE_S = 3600.0

_LENT = (NodePhase.SHARING, NodePhase.PAUSED)  # guests may be there


def follow(draft: Draft) -> None:
    """After an event, before anything is planned: which nodes came or went?"""
    if draft.policies.learning is None:
        return
    for former, node in draft.changed_nodes():
        _follow(draft, former, node)


def begin_again(draft: Draft) -> None:
    """A coordinator started, perhaps after a long absence, perhaps for the first time with a memory."""
    learning = draft.policies.learning
    if learning is None:
        return
    due_s = draft.timer_at(LessonDue())
    away = due_s is not None and draft.now_s > due_s + OUTAGE_S
    for node in tuple(draft.state.nodes.values()):
        lending = draft.state.memories.lendings.get(node.id)
        if lending is None:
            _open(draft, Lending(id=node.id, counted_s=draft.now_s), node)
        elif away or (lending.free_since_s is not None and _ended_unseen(node)):
            _open(draft, replace(lending, counted_s=draft.now_s, free_since_s=None, foretold=None), node)
    if draft.state.memories.lendings and not draft.timer_set(LessonDue()):
        _next_lesson(draft, learning, _campus(draft))


def lesson(draft: Draft) -> None:
    """The timer. Nodes not counted since this lesson began are due, a few at a time."""
    learning = draft.policies.learning
    if learning is None:
        return
    campus = _campus(draft)
    if campus.lesson_s is None:
        campus = replace(campus, lesson_s=draft.now_s)
        draft.put(campus)
    assert campus.lesson_s is not None
    due = sorted(
        lending.id
        for lending in draft.state.memories.lendings.values()
        if lending.counted_s < campus.lesson_s and (lending.recent or lending.free_since_s is not None)
    )
    for node_id in due[:NODES_AT_ONCE]:
        _learn(draft, learning, node_id)
    if len(due) > NODES_AT_ONCE:
        draft.set_timer(LessonDue(), draft.now_s + BETWEEN_S)
        return
    campus = replace(_campus(draft), lesson_s=None, learned_s=draft.now_s)
    draft.put(campus)
    _next_lesson(draft, learning, campus)


def _follow(draft: Draft, former: Node | None, node: Node) -> None:
    lending = draft.state.memories.lendings.get(node.id)
    if lending is None:
        _open(draft, Lending(id=node.id, counted_s=draft.now_s), node)
        if not draft.timer_set(LessonDue()) and draft.policies.learning is not None:
            _next_lesson(draft, draft.policies.learning, _campus(draft))
        return
    if node.phase is NodePhase.SILENT or former is None:
        return  # nobody knows yet: it may be heard again before its guests are given up
    another = former.incarnation != node.incarnation
    if former.phase is NodePhase.SILENT and (another or _given_up(draft, former)):
        lending = _departed(draft, lending, former, former.phase_since_s, notice_s=None)
    elif another or (lending.free_since_s is not None and node.phase not in _LENT):
        lending = _departed(draft, lending, former, draft.now_s, notice_s=_notice_s(draft, node))
    _open(draft, lending, node)


def _open(draft: Draft, lending: Lending, node: Node) -> None:
    if lending.free_since_s is None and node.phase in _LENT:
        lending = replace(lending, free_since_s=draft.now_s)
    if lending != draft.state.memories.lendings.get(node.id):
        draft.put(lending)


def _departed(draft: Draft, lending: Lending, node: Node, at_s: float, *, notice_s: float | None) -> Lending:
    """`node`: as it was before."""
    since_s = lending.free_since_s
    if since_s is None:
        return lending
    signs.count(draft, node, lending, at_s, departed=True)
    from_s = max(since_s, lending.counted_s)
    span = LentSpan(from_s=from_s, to_s=max(from_s, at_s), departed=True, free_since_s=since_s)
    lending = calibration.settled_by_departure(lending, span.to_s)
    _note_manner(draft, notice_s)
    recent = (*lending.recent, span)
    if len(recent) >= RECENT_MOST:
        draft.set_timer(LessonDue(), draft.now_s)
    return replace(lending, free_since_s=None, recent=recent)


def _note_manner(draft: Draft, notice_s: float | None) -> None:
    campus = _campus(draft)
    book = NoticeBook(unannounced=campus.unannounced, notices_s=campus.notices_s)
    book = book.came_unannounced() if notice_s is None else book.announced(notice_s)
    draft.put(replace(campus, unannounced=book.unannounced, notices_s=book.notices_s))


def _notice_s(draft: Draft, node: Node) -> float | None:
    if node.phase is not NodePhase.RECLAIMING or node.deadline_s is None:
        return None
    return max(0.0, node.deadline_s - draft.now_s)


def _learn(draft: Draft, learning: Learning, node_id: NodeId) -> None:
    lending = _up_to_date(draft, draft.state.memories.lendings[node_id])
    spans = list(lending.recent)
    if lending.free_since_s is not None:
        from_s = max(lending.free_since_s, lending.counted_s)
        # A hello is heard a moment before it is dealt with, and it may be the last that is heard.
        until_s = max(from_s, _heard_until_s(draft, node_id))
        spans.append(
            LentSpan(
                from_s=from_s,
                to_s=until_s,
                departed=False,
                free_since_s=lending.free_since_s,
            )
        )
        lending = calibration.settled_by_time(lending, until_s)
        signs.count(draft, draft.state.nodes[node_id], lending, until_s, departed=False)
    hazard = draft.state.memories.hazard(learning)
    evidence = evidence_of(lending.memory).judged(spans, hazard.book.answers(node_id), draft.now_s)
    history = history_of(lending.memory, learning.utc_offset_s).absorbed(spans)
    lending = replace(lending, memory=memory_of(history, evidence), recent=(), counted_s=draft.now_s)
    if lending.foretold is None and lending.free_since_s is not None:
        node = draft.state.nodes[node_id]
        chance = 1.0 - hazard.survival(node, draft.now_s, calibration.HORIZON_S)
        lending = replace(lending, foretold=Foretold(made_s=draft.now_s, chance=round(chance, 6)))
    draft.put(lending)


def _up_to_date(draft: Draft, lending: Lending) -> Lending:
    """A node that has been silent for so long that its guests were given up has departed."""
    node = draft.state.nodes[lending.id]
    if node.phase is NodePhase.SILENT and _given_up(draft, node):
        return _departed(draft, lending, node, node.phase_since_s, notice_s=None)
    return lending


def _heard_until_s(draft: Draft, node_id: NodeId) -> float:
    node = draft.state.nodes[node_id]
    return node.phase_since_s if node.phase is NodePhase.SILENT else draft.now_s


def _given_up(draft: Draft, silent: Node) -> bool:
    fence_s = draft.policies.suspicion.given_up_after_s(draft.timing, silent.facts.terms)
    return draft.now_s - silent.phase_since_s > fence_s


def _ended_unseen(node: Node) -> bool:
    return node.phase not in (*_LENT, NodePhase.SILENT)


def _campus(draft: Draft) -> CampusMemory:
    return draft.state.memories.campus or CampusMemory(began_s=draft.now_s)


def _next_lesson(draft: Draft, learning: Learning, campus: CampusMemory) -> None:
    if draft.state.memories.campus is None:
        draft.put(campus)
    after_s = learning.lesson_after_s(draft.now_s - campus.began_s)
    draft.set_timer(LessonDue(), draft.now_s + after_s)
