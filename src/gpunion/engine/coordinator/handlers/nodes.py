"""Nodes come, go, fall silent and are wanted back."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointPhase
from gpunion.domain.jobs.migration import MigrationPhase
from gpunion.domain.jobs.run import Run
from gpunion.domain.nodes.node import DiskRoom, Node, NodeFacts, NodePhase
from gpunion.domain.nodes.trust import NodeRemoved
from gpunion.domain.nodes.withheld import HoldCause, after_resume
from gpunion.domain.protocol.effects import ForgetOrders
from gpunion.domain.protocol.events import (
    NodeFellSilent,
    NodeHeard,
    NodeJoined,
)
from gpunion.domain.protocol.orders import StopRun
from gpunion.domain.protocol.reports import NodeReclaimed, NoticeGiven
from gpunion.domain.protocol.timers import FenceOver, SilentTooLong
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.handlers import signs
from gpunion.engine.coordinator.planning import departures
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.engine.coordinator.runs import whole_guests as dumps
from gpunion.engine.coordinator.runs.save_timer import set_checkpoint_timer
from gpunion.engine.coordinator.windows import ends
from gpunion.lifecycle.node import NODE

# Of a disk that every save of a guest fills for a moment its user is told no more often.
DISK_AGAIN_S = 3600.0
_DISK = {DiskRoom.SHORT: Why.DISK_SHORT, DiskRoom.FULL: Why.DISK_FULL}


def joined(draft: Draft, event: NodeJoined) -> None:
    node = draft.state.nodes.get(event.node_id)
    if node is not None and node.unheard:
        node = replace(node, unheard=False)
        draft.put(node)
    if node is None or node.phase is NodePhase.LEFT:
        _new(draft, event, node)
    elif node.incarnation != event.incarnation:
        _lost_its_memory(draft, event, node)
    else:
        if node.facts != event.facts:
            if node.facts.terms != event.facts.terms:
                draft.because(node.id, Why.TERMS_CHANGED, node=node.id, said="while it was away")
            _tell_of_disk(draft, node, event.facts)
            node = dumps.with_facts(node, event.facts)
            draft.put(node)
        node = signs.forgotten(draft, node)
        if node.known_end_s is not None or node.not_lent_because:
            # Foretold by an agent that may have changed its mind meanwhile; it says so again if it has not.
            node = replace(node, known_end_s=None, not_lent_because="")
            draft.put(node)
        if node.phase is NodePhase.SILENT:
            _back(draft, node)
    _end_leftovers(draft, event)


def none_was_heard(draft: Draft) -> None:
    """By the coordinator that begins now. Whoever is there says hello within a second or two; a job that is
    given to one that went meanwhile waits for as long as it takes to notice."""
    for node in list(draft.state.nodes.values()):
        if node.phase not in (NodePhase.SILENT, NodePhase.LEFT) and not node.unheard:
            draft.put(replace(node, unheard=True))


def fell_silent(draft: Draft, event: NodeFellSilent) -> None:
    node = draft.state.nodes.get(event.node_id)
    if node is None or node.phase in (NodePhase.SILENT, NodePhase.LEFT):
        return
    draft.put(
        replace(
            node,
            phase=NODE.check(node.id, node.phase, NodePhase.SILENT),
            before_silence=node.phase,
            phase_since_s=event.last_heard_s,
        )
    )
    fence_s = draft.policies.suspicion.given_up_after_s(draft.timing, node.facts.terms)
    gone_s = event.last_heard_s + fence_s
    draft.because(node.id, Why.NODE_WENT_SILENT, node=node.id, fence_s=gone_s - draft.now_s)
    for run in living(draft, node.id):
        if node.isolated_because and draft.timer_set(SilentTooLong(run_id=run.id)):
            continue  # it has had no lease since then, however often it falls silent
        draft.set_timer(SilentTooLong(run_id=run.id), gone_s)
        draft.because(run.job_id, Why.NODE_WENT_SILENT, node=node.id, fence_s=gone_s - draft.now_s)


def heard(draft: Draft, event: NodeHeard) -> None:
    node = draft.state.nodes.get(event.node_id)
    if node is not None and node.phase is NodePhase.SILENT:
        _back(draft, node)


def notice_given(draft: Draft, node_id: NodeId, report: NoticeGiven) -> None:
    known = draft.state.nodes.get(node_id)
    before = None if known is None else known.phase
    node = _change(draft, node_id, NodePhase.RECLAIMING)
    if node is not None:
        again = before is NodePhase.RECLAIMING  # a shortened notice is the same departure
        departures = node.departures + (not again)
        by_terms = report.cause is HoldCause.TERMS
        why_now = report.detail if by_terms else ""
        draft.put(
            replace(
                node,
                deadline_s=report.deadline_s,
                departures=departures,
                wanted_why=why_now,
                when_safe=report.when_safe,
            )
        )
        notice_s = max(0.0, report.deadline_s - draft.now_s)
        if by_terms and not report.leaving:
            detail = why_now or "no detail given"
            draft.because(node.id, Why.TERMS_END_LENDING, node=node.id, detail=detail, notice_s=notice_s)
            return
        why = Why.OWNER_LEFT if report.leaving else Why.OWNER_WANTS_NODE
        draft.because(node.id, why, node=node.id, notice_s=notice_s)


def reclaimed(draft: Draft, node_id: NodeId, report: NodeReclaimed) -> None:
    node = _change(draft, node_id, NodePhase.RECLAIMED)
    if node is not None:
        draft.put(replace(node, deadline_s=None, departures=node.departures + report.killed))
        if report.killed:
            draft.because(node.id, Why.OWNER_KILLED, node=node.id)
        else:
            draft.because(node.id, Why.MACHINE_FREE, freed_after_s=report.freed_after_s)


def paused(draft: Draft, node_id: NodeId) -> None:
    if _change(draft, node_id, NodePhase.PAUSED) is not None:
        draft.because(node_id, Why.NODE_PAUSED)


def resumed(draft: Draft, node_id: NodeId) -> None:
    node = _change(draft, node_id, NodePhase.SHARING)
    if node is None:
        return
    node = replace(
        node, deadline_s=None, withheld=after_resume(node.withheld), wanted_why="", when_safe=False
    )
    draft.put(node)
    draft.because(node_id, Why.NODE_BACK, node=node_id)
    stay_if_they_can(draft, node)


def left(draft: Draft, node_id: NodeId) -> None:
    node = _change(draft, node_id, NodePhase.LEFT)
    if node is None:
        return
    draft.put(replace(node, deadline_s=None))
    draft.because(node_id, Why.OWNER_LEFT, node=node_id)
    draft.do(ForgetOrders(node_id=node_id))
    _fence(draft, node)


def removed(draft: Draft, event: NodeRemoved) -> None:
    """Nothing is barred by it: a machine that joins, or is heard of after all, is on the list again."""
    node = draft.state.nodes.get(event.node_id)
    if node is None:
        draft.because(event.node_id, Why.UNKNOWN_NODE)
        return
    runs = [run.id for run in living(draft, node.id)]
    if node.phase not in (NodePhase.LEFT, NodePhase.SILENT):
        because = f"it is joined ({node.phase.value})"
        draft.because(node.id, Why.NODE_STAYS, because=because)
    elif runs:
        because = f"nobody knows yet that {', '.join(runs)} has ended there"
        draft.because(node.id, Why.NODE_STAYS, because=because)
    elif not node.removed:
        if node.phase is NodePhase.SILENT:
            left(draft, node.id)
        draft.put(replace(draft.state.nodes[node.id], removed=True))
        draft.because(node.id, Why.NODE_REMOVED, by=event.by)


def living(draft: Draft, node_id: NodeId) -> list[Run]:
    return [draft.state.runs[run_id] for run_id in sorted(draft.state.living.get(node_id, ()))]


def stay_if_they_can(draft: Draft, node: Node) -> None:
    """Guests that were only waiting for a deadline that is not coming any more go on as before."""
    for run in living(draft, node.id):
        if node.wanted_by_s(run.held_gpus) is None and run.wanted_by_s is None:
            _stays_if_it_can(draft, run)


def _stays_if_it_can(draft: Draft, run: Run) -> None:
    job = draft.job_of(run)
    migration = moving.migration_of(draft, job)
    if migration is None:
        departures.say_it_may_stay(draft, run)
        return
    if migration.phase is not MigrationPhase.FLUSHING:
        return
    if migration.flush is None:
        moving.abandon(draft, job)
        departures.say_it_may_stay(draft, run)
    elif draft.state.checkpoints[migration.flush].phase is CheckpointPhase.FAILED:
        moving.stay(draft, run)
        ends.stays(draft, run, draft.state.checkpoints[migration.flush].trouble)
        departures.say_it_may_stay(draft, draft.state.runs[run.id])
        set_checkpoint_timer(draft, draft.state.runs[run.id])


def _new(draft: Draft, event: NodeJoined, former: Node | None) -> None:
    draft.put(
        Node(
            id=event.node_id,
            facts=event.facts,
            phase=NodePhase.SHARING,
            incarnation=event.incarnation,
            joined_s=draft.now_s,
            phase_since_s=draft.now_s,
            departures=0 if former is None else former.departures,
            isolated_because="" if former is None else former.isolated_because,
        )
    )
    facts = event.facts
    gpus = len(facts.capacity.gpus)
    draft.because(event.node_id, Why.NODE_JOINED, node=event.node_id, lab=facts.lab or "-", gpus=gpus)
    if former is not None:
        draft.do(ForgetOrders(node_id=event.node_id))


def _lost_its_memory(draft: Draft, event: NodeJoined, node: Node) -> None:
    """A new agent where an old one was. The old one's guests end by their keepers' limits: wait for those."""
    draft.do(ForgetOrders(node_id=node.id))
    draft.put(
        replace(
            node,
            facts=event.facts,
            incarnation=event.incarnation,
            phase=NODE.check(node.id, node.phase, NodePhase.SHARING),
            phase_since_s=draft.now_s,
            before_silence=None,
            deadline_s=None,
            withheld=(),
            wanted_why="",
            when_safe=False,
            known_end_s=None,
            not_lent_because="",
            signs=None,
            signs_before=None,
        )
    )
    gpus = len(event.facts.capacity.gpus)
    draft.because(node.id, Why.NODE_JOINED, node=node.id, lab=event.facts.lab or "-", gpus=gpus)
    _fence(draft, node)


def _tell_of_disk(draft: Draft, node: Node, facts: NodeFacts) -> None:
    disk, failed = facts.disk, node.facts.disk_fails
    if (disk, facts.disk_fails) == (node.facts.disk, failed):
        return
    for run in living(draft, node.id):
        if disk is DiskRoom.FINE:
            if run.disk_short:
                draft.put(replace(run, disk_short=False))
                draft.because(run.job_id, Why.DISK_WORKS if failed else Why.DISK_HAS_ROOM, node=node.id)
        elif disk is DiskRoom.FULL or _not_told_lately(draft, run):
            durable = draft.durable_step(run.job_id)
            safe = f"step {durable} is safe" if durable else "nothing of it is saved yet"
            draft.put(replace(run, disk_short=True, disk_told_s=draft.now_s))
            why = Why.DISK_FAILS if facts.disk_fails else _DISK[disk]
            draft.because(run.job_id, why, node=node.id, safe=safe)


def _not_told_lately(draft: Draft, run: Run) -> bool:
    return run.disk_told_s is None or draft.now_s - run.disk_told_s >= DISK_AGAIN_S


def _fence(draft: Draft, node: Node) -> None:
    """Not the timer of a silence: hearing the node again does not bring its former guests back."""
    fence_s = draft.policies.suspicion.given_up_after_s(draft.timing, node.facts.terms)
    for run in living(draft, node.id):
        if not draft.timer_set(FenceOver(run_id=run.id)):
            draft.set_timer(FenceOver(run_id=run.id), draft.now_s + fence_s)
            draft.because(run.job_id, Why.FORGOTTEN_THERE, node=node.id, fence_s=fence_s)


def _back(draft: Draft, node: Node) -> None:
    phase = NODE.check(node.id, node.phase, node.before_silence or NodePhase.SHARING)
    draft.put(replace(node, phase=phase, before_silence=None, phase_since_s=draft.now_s))
    draft.because(node.id, Why.NODE_HEARD_AGAIN, node=node.id)
    if node.isolated_because:
        return  # its runs are given up all the same
    for run in living(draft, node.id):
        draft.cancel_timer(SilentTooLong(run_id=run.id))


def _end_leftovers(draft: Draft, event: NodeJoined) -> None:
    """Guests of runs that were given up meanwhile. They end by themselves; saying so is quicker."""
    for run_id in event.guests:
        run = draft.state.runs.get(RunId(run_id))
        if run is not None and not run.living:
            draft.order(event.node_id, StopRun(run_id=run.id, job_id=run.job_id, epoch=run.epoch))


def _change(draft: Draft, node_id: NodeId, phase: NodePhase) -> Node | None:
    node = draft.state.nodes.get(node_id)
    if node is None:
        draft.because(node_id, Why.UNKNOWN_NODE)
        return None
    changed = replace(node, phase=NODE.check(node.id, node.phase, phase), phase_since_s=draft.now_s)
    draft.put(changed)
    return changed
