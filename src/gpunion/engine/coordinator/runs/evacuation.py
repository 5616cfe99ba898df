"""Before a machine's lending ends as foretold: will what its guests have not saved fit the notice?

Owners' hours and calendars are known hours ahead, so nobody need lose work to them. Guests are asked to save
one after another, shortly before the notice begins, until the rest fits it. Departures that nobody foretold
are no business of this module: whether they leave time enough is part of every interval
(`policy/checkpoint_timing/hazard_aware.py`).
"""

from __future__ import annotations

from gpunion.domain.ids import NodeId, RunId, checkpoint_id
from gpunion.domain.jobs.run import Run
from gpunion.domain.jobs.window import WindowEnd
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.protocol.timers import EvacuationDue, SaveDue
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.runs import gang_members as gangs
from gpunion.engine.coordinator.runs.unsaved_work import at_stake, undecided
from gpunion.policy.bandwidth import periodic_rate_bps
from gpunion.policy.checkpoint_timing.evacuation import ahead_s, next_to_save, saved_within_s

_LENT = (NodePhase.SHARING, NodePhase.PAUSED)


def look(draft: Draft, node_id: NodeId) -> None:
    """Something changed that may matter for it: the end, the guests, what they have saved; or it is time."""
    node = draft.state.nodes.get(node_id)
    if node is None or node.known_end_s is None or node.phase not in _LENT or not draft.policies.evacuates:
        return
    guests = {run.id: at_stake(draft, run) for run in _guests(draft, node_id)}
    if not guests:
        return
    notice_s, uplink_bps = node.facts.terms.notice_s, node.facts.lent_uplink_bps
    rate_bps = periodic_rate_bps(uplink_bps, len(guests))
    begins_s = node.known_end_s - notice_s - ahead_s(list(guests.values()), rate_bps)
    if draft.now_s < begins_s:
        draft.set_timer(EvacuationDue(node_id=node_id), begins_s)
        return
    noticed_s = node.known_end_s - notice_s
    unsaved = [
        guest
        for run_id, guest in guests.items()
        if not _asked_since(draft, run_id, begins_s)
        and not _saves_anyway(draft, run_id, noticed_s - saved_within_s(guest, rate_bps))
    ]
    chosen = next_to_save(unsaved, notice_s=notice_s, uplink_bps=uplink_bps)
    if chosen is None or draft.now_s >= noticed_s:
        return
    _ask_to_save(draft, draft.state.runs[chosen], node)
    again_s = draft.now_s + saved_within_s(guests[chosen], rate_bps)
    # Its arrival usually comes sooner, and looks as well.
    draft.set_timer(EvacuationDue(node_id=node_id), again_s)


def _guests(draft: Draft, node_id: NodeId) -> list[Run]:
    """Of a gang's members on the machine the first, who stands for them all; none of a gang that does not run
    as a whole: nobody can ask it, and it would keep the others from being asked."""
    runs = [draft.state.runs[run_id] for run_id in sorted(draft.state.living.get(node_id, ()))]
    able = [
        run for run in runs if undecided(draft, run) and _together(draft, run) and not _leaves_by_itself(run)
    ]
    return [run for run in able if gangs.beside(draft, run)[0].id == run.id]


def _leaves_by_itself(run: Run) -> bool:
    """Saved, before its machine's end."""
    return run.subjob is not None and run.subjob.end is WindowEnd.KNOWN_END


def _asked_since(draft: Draft, run_id: RunId, since_s: float) -> bool:
    """Once is enough, whatever comes of it: who cannot save would keep the others from it."""
    run = draft.state.runs[run_id]
    last = draft.state.checkpoints.get(checkpoint_id(run.id, run.checkpoints))
    began_s = run.started_s if last is None else last.requested_s
    return began_s is not None and began_s >= since_s


def _saves_anyway(draft: Draft, run_id: RunId, by_s: float) -> bool:
    """By its own clock, before the notice begins: later than it would be asked to, so it has less to lose."""
    planned_s = draft.timer_at(_timer(draft, draft.state.runs[run_id]))
    return planned_s is not None and planned_s <= by_s


def _timer(draft: Draft, run: Run) -> SaveDue:
    """That of its next save; of a gang's members the first has it."""
    return SaveDue(run_id=_together(draft, run)[0].id)


def _together(draft: Draft, run: Run) -> list[Run]:
    """Those that save with it."""
    job = draft.job_of(run)
    return [run] if job.spec.seat is None else gangs.running_together(draft, job)


def _ask_to_save(draft: Draft, run: Run, node: Node) -> None:
    timer = _timer(draft, run)
    planned_s = draft.timer_at(timer) if draft.timer_set(timer) else None
    if planned_s is None or planned_s <= draft.now_s:
        return  # it is being saved already
    draft.set_timer(timer, draft.now_s)
    left_s = (node.known_end_s or draft.now_s) - draft.now_s
    draft.because(
        run.job_id, Why.SAVES_AHEAD, node=node.id, left_s=left_s, notice_s=node.facts.terms.notice_s
    )
