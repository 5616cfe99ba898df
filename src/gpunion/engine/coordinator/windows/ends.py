"""When a run's window ends, and how its machine is told."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.profile import Profile
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.jobs.window import Subjob, WindowEnd
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.protocol.orders import SetWindow
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft
from gpunion.policy.bandwidth import periodic_rate_bps
from gpunion.policy.windows.gaps import known_end_s
from gpunion.policy.windows.sizing import GUARD_S, Sizing, sizing_of

UNKNOWN = Profile()
# So many may send at once when a machine's end comes near.
SENDERS = 2
# From the end of a window back: an agent asks so much earlier than a save would take.
ASKED_S = 2.0
# An end that somebody else's need gave it is not put off by what its owner foretells.
_BY_NODE = (WindowEnd.OPEN, WindowEnd.KNOWN_END)
_FOR_OTHERS = (WindowEnd.PROMISED, WindowEnd.GANG, WindowEnd.TURN)
_STAYING = (RunPhase.ORDERED, RunPhase.RUNNING)
BECAUSE = {
    WindowEnd.KNOWN_END: "its owner has the machine then",
    WindowEnd.PROMISED: "a job that needs several GPUs at once begins there then",
    WindowEnd.GANG: "a gang begins there then",
    WindowEnd.TURN: "its turn is over, and others wait",
    WindowEnd.SURVIVAL: "the machine is not likely to be lent for longer",
    WindowEnd.OPEN: "nobody waits for it",
}


def sizing_for(job: Job) -> Sizing:
    return sizing_of(job.profile or UNKNOWN, job.cost)


def of_newcomer(draft: Draft, job: Job, node_id: NodeId) -> Subjob | None:
    """Of a job that runs in windows and was placed like any other."""
    if draft.policies.windows is None or not job.spec.atomizable:
        return None
    pieces = 0 if job.profile is None else job.profile.pieces
    return _by_its_node(draft, job, draft.state.nodes[node_id], number=pieces + 1)


def until(job: Job, run: Run, ends_s: float, end: WindowEnd) -> Subjob:
    """The window of a run that is there, with another end."""
    assert run.subjob is not None
    save_s = sizing_for(job).save_s + GUARD_S
    return replace(run.subjob, ends_s=ends_s, hard=end.hard, end=end, save_s=save_s)


def give(draft: Draft, run: Run, subjob: Subjob) -> None:
    """A run gets another end than it had."""
    draft.put(replace(draft.state.runs[run.id], subjob=subjob))
    draft.order(run.node_id, SetWindow(run_id=run.id, job_id=run.job_id, epoch=run.epoch, subjob=subjob))


def follow(draft: Draft) -> None:
    """Owners have foretold something else, so windows on their machines end at other times."""
    if not draft.state.in_windows or draft.policies.windows is None:
        return
    for former, node in draft.changed_nodes():
        if former is not None and former.known_end_s != node.known_end_s:
            for run_id in sorted(draft.state.living.get(node.id, set()) & draft.state.in_windows):
                _follow(draft, draft.state.runs[run_id], node)


def _follow(draft: Draft, run: Run, node: Node) -> None:
    if run.phase not in _STAYING or run.subjob is None or run.subjob.end not in _BY_NODE:
        return
    job = draft.job_of(run)
    subjob = _by_its_node(draft, job, node, number=run.subjob.number)
    if subjob == run.subjob:
        return
    give(draft, run, subjob)
    if subjob.ends_s is not None:
        ends_in_s, why = subjob.ends_s - draft.now_s, BECAUSE[subjob.end]
        draft.because(job.id, Why.WINDOW_GIVEN, node=node.id, ends_in_s=ends_in_s, because=why)


def _by_its_node(draft: Draft, job: Job, node: Node, *, number: int) -> Subjob:
    """It is saved in time for that to be sent as well, without a hurry; the end itself is its keeper's limit
    in any case."""
    ends_s, safe_every = known_end_s(node), job.spec.windows.safe_every
    if ends_s is None:
        return Subjob(ends_s=None, hard=False, end=WindowEnd.OPEN, number=number, safe_every=safe_every)
    sizing, notice_s = sizing_for(job), node.facts.terms.notice_s
    save_s = sizing.save_s + GUARD_S
    sent_s = 8.0 * job.cost.ship_bytes / max(1.0, periodic_rate_bps(node.facts.lent_uplink_bps, SENDERS))
    ahead_s = min(notice_s, sent_s)
    if ends_s - ahead_s - save_s > draft.now_s:
        save_s += ahead_s
    return Subjob(
        ends_s=ends_s,
        hard=True,
        end=WindowEnd.KNOWN_END,
        number=number,
        save_s=save_s,
        safe_every=safe_every,
    )


def leaves_by_itself(run: Run, by_s: float) -> bool:
    """By its owner's deadline, since that was foretold: nobody has to see to it."""
    subjob = run.subjob
    if subjob is None or subjob.end is not WindowEnd.KNOWN_END or subjob.ends_s is None:
        return False
    if run.gave_place:
        return False  # it stands still, and reads no window
    return subjob.ends_s <= by_s


def afresh(draft: Draft, run: Run) -> None:
    """It stood still in memory and goes on: its turn begins anew, and what its window was to end for is
    over, or has found another place."""
    run = draft.state.runs[run.id]
    if run.subjob is None:
        return
    subjob = _by_its_node(draft, draft.job_of(run), draft.state.nodes[run.node_id], number=run.subjob.number)
    draft.put(replace(run, turn_since_s=draft.now_s))
    give(draft, run, subjob)


def if_over_afresh(draft: Draft, run: Run) -> None:
    """Its own machine let it go on: it has forgotten an end that had passed by then."""
    subjob = run.subjob
    if subjob is not None and subjob.ends_s is not None and subjob.ends_s <= draft.now_s + GUARD_S:
        afresh(draft, run)


def stays(draft: Draft, run: Run, trouble: CheckpointTrouble | None) -> None:
    """It was to leave for another reason, could not be saved for that, and goes on. If its turn was over
    meanwhile nobody ends it any more: its agent has asked it once. But where that is why it was not asked
    again, it may yet answer."""
    if trouble is not CheckpointTrouble.SUPERSEDED:
        not_saved(draft, run)


def let_stay(draft: Draft) -> None:
    """Who was to make room for somebody who does not come stays as long as its machine lets it."""
    for promise in draft.promises_ended():
        node = draft.state.nodes[promise.node_id]
        others = [draft.state.jobs[one].promised for one in draft.state.promised.get(node.id, ())]
        wanted = {index for other in others if other is not None for index in other.gpus}
        for run_id in sorted(draft.state.living.get(node.id, set()) & draft.state.in_windows):
            run = draft.state.runs[run_id]
            its = set(run.held_gpus)
            if not its.isdisjoint(promise.gpus) and its.isdisjoint(wanted) and _may_stay(draft, run, node):
                _stays(draft, run, node)


def _may_stay(draft: Draft, run: Run, node: Node) -> bool:
    """Not where something else ends it, nor where its keeper already has."""
    subjob = run.subjob
    if subjob is None or subjob.end not in _FOR_OTHERS or run.phase is not RunPhase.RUNNING:
        return False
    if node.phase is not NodePhase.SHARING or draft.job_of(run).migration is not None or run.parking:
        return False
    over = subjob.hard and subjob.ends_s is not None and subjob.ends_s <= draft.now_s
    return not over and run.over_s is None and run.wanted_by_s is None


def _stays(draft: Draft, run: Run, node: Node) -> None:
    assert run.subjob is not None
    subjob, had = _by_its_node(draft, draft.job_of(run), node, number=run.subjob.number), run.subjob
    give(draft, run, replace(subjob, vram_bytes=had.vram_bytes, limit_bytes=had.limit_bytes))
    if had.end is WindowEnd.TURN:  # it was told that its window ends
        draft.because(run.job_id, Why.TURN_KEPT, node=node.id)


def not_saved(draft: Draft, run: Run) -> None:
    """Its turn was over and it could not save itself: it goes on, and whoever was to come waits on."""
    run = draft.state.runs[run.id]
    if run.phase is not RunPhase.RUNNING or run.subjob is None or run.subjob.end is not WindowEnd.TURN:
        return
    job, node = draft.job_of(run), draft.state.nodes[run.node_id]
    subjob = _by_its_node(draft, job, node, number=run.subjob.number)
    draft.put(replace(run, turn_since_s=draft.now_s))
    give(draft, run, subjob)
    for job_id in sorted(draft.state.promised.get(run.node_id, ())):
        other = draft.state.jobs[job_id]
        if other.promised is not None and not set(other.promised.gpus).isdisjoint(run.held_gpus):
            draft.put(replace(other, promised=None))
            draft.because(other.id, Why.PROMISE_DROPPED, node=run.node_id)
