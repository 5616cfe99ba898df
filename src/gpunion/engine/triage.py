"""Wanted nodes are emptied: each guest is flushed where that fits the notice, and told where it goes."""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.job import Job
from gpunion.domain.migration import Cause, MigrationPhase
from gpunion.domain.node import Node
from gpunion.domain.reasons import Why
from gpunion.domain.replacing import replace
from gpunion.domain.run import Run
from gpunion.domain.withheld import HoldCause
from gpunion.engine import announcing, gangs, moving, prefetch, staging
from gpunion.engine.capacity import view, views
from gpunion.engine.departing import active_flush_bps, whose_turn
from gpunion.engine.draft import Draft
from gpunion.engine.stakes import at_stake, undecided
from gpunion.policy.bandwidth import RECLAIM_SHARE, reclaim_cap_bps
from gpunion.policy.placement.filters import refusal
from gpunion.policy.placement.pick import choose_gpus
from gpunion.policy.reclaim import GUARD_S, GUARD_SHARE, AtStake, Triage

# Planned to be busy this much longer than the wire alone would take: the rates' own margin, and rounding.
ROOM_TO_SPARE = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """Until when a run may go on, and until when what it saved may be sent.

    The two differ where its owner wants a single GPU: the rest of the machine is still there to send from.
    """

    deadline_s: float
    sent_by_s: float

    @property
    def sends_afterwards(self) -> bool:
        return self.sent_by_s > self.deadline_s


def empty_wanted_nodes(draft: Draft) -> None:
    for node_id in sorted(draft.state.reclaiming | draft.state.asked_to_go.keys()):
        node = draft.state.nodes[node_id]
        wanted: dict[Want, list[Run]] = {}
        for run in _runs(draft, node_id):
            want = _want(draft, node, run) if undecided(draft, run) else None
            if want is not None:
                wanted.setdefault(want, []).append(run)
        for want, runs in sorted(wanted.items(), key=lambda pair: pair[0].deadline_s):
            _decide(draft, node, runs, want)


def _want(draft: Draft, node: Node, run: Run) -> Want | None:
    wanted = (node.wanted_by_s(run.held_gpus), run.wanted_by_s)
    deadline_s = min((at_s for at_s in wanted if at_s is not None), default=None)
    if deadline_s is None or any(gpu.cause is HoldCause.SICK for gpu in announcing.wanted_gpus(node, run)):
        return None  # nothing is saved from a broken GPU: its agent ends the run and says so
    if node.deadline_s is not None:
        return Want(deadline_s=deadline_s, sent_by_s=node.deadline_s)
    return Want(deadline_s=deadline_s, sent_by_s=deadline_s + draft.timing.save_timeout_s)


def _decide(draft: Draft, node: Node, runs: list[Run], want: Want) -> None:
    parties = {party[0].id: party for party in _parties(draft, runs)}
    stakes = [at_stake(draft, party[0]) for party in parties.values()]
    if draft.policies.takes_turns and not want.sends_afterwards:
        now, later = whose_turn(draft, node, stakes, want.deadline_s)
        for turn in later:
            for run in parties[turn.run_id]:
                announcing.say_it_works_on(draft, node, run, turn, want.deadline_s)
        stakes = [stake for stake in stakes if stake.run_id in now]
    if not stakes:
        return  # nobody's turn yet
    uplink_bps = node.facts.lent_uplink_bps - active_flush_bps(draft, node.id) / RECLAIM_SHARE
    by_id = {run.id: run for run in runs}
    whole = _triage(draft, stakes, _in_no_hurry(draft, node, stakes, want, uplink_bps), max(uplink_bps, 1.0))
    fates = [each for fate in whole for each in _shared(draft, fate, parties[fate.run_id])]
    going = [draft.job_of(by_id[fate.run_id]) for fate in fates if fate.rate_bps is not None]
    planned = _plan(draft, node, going) if len(going) > 1 else {}
    for fate in fates:
        _carry_out(draft, node, by_id[fate.run_id], fate, want, planned)


def _parties(draft: Draft, runs: list[Run]) -> list[list[Run]]:
    """Who leaves as one. Of a gang's members on one machine a save of some counts for nothing: all of them
    have their turn at once, and fit the notice together or not at all."""
    found: dict[JobId, list[Run]] = {}
    for run in runs:
        leader = gangs.members(draft, draft.job_of(run))[0]
        found.setdefault(leader.id, []).append(run)
    return list(found.values())


def _shared(draft: Draft, fate: Triage, party: list[Run]) -> list[Triage]:
    """By what each has to send. A member whose GPU nobody wants has its part too: it saves with them."""
    if fate.rate_bps is None:
        return [replace(fate, run_id=run.id) for run in party]
    sizes = {run.id: max(1, draft.job_of(run).cost.ship_bytes) for run in gangs.beside(draft, party[0])}
    per_byte_bps = fate.rate_bps / sum(sizes.values())
    return [replace(fate, run_id=run.id, rate_bps=per_byte_bps * sizes[run.id]) for run in party]


def _in_no_hurry(draft: Draft, node: Node, stakes: list[AtStake], want: Want, uplink_bps: float) -> Want:
    """An owner who waits until it is safe waits no longer for rates that would just do by the limit: all go
    as fast as they can beside each other, and whoever proves larger than thought has the rest of the time."""
    if not node.when_safe:
        return want
    bits = sum(8.0 * stake.ship_bytes for stake in stakes)
    busy_s = max(stake.stall_s for stake in stakes) + ROOM_TO_SPARE * bits / max(
        reclaim_cap_bps(uplink_bps), 1.0
    )
    soon_s = draft.now_s + (busy_s + GUARD_S) / (1.0 - GUARD_SHARE)
    return Want(deadline_s=min(want.deadline_s, soon_s), sent_by_s=min(want.sent_by_s, soon_s))


def _plan(draft: Draft, node: Node, jobs: list[Job]) -> dict[JobId, NodeId]:
    return draft.policies.destination.plan(jobs, views(draft), leaving=_leaving(node), now_s=draft.now_s)


def _leaving(node: Node) -> NodeId | None:
    """Where it leaves a single GPU, another one of the same node is as good as any."""
    return None if node.deadline_s is None else node.id


def _destination(draft: Draft, node: Node, job: Job, planned: NodeId | None) -> NodeId | None:
    """As planned, if those before it have left room there."""
    if planned is not None and refusal(job, view(draft, planned), draft.now_s) is None:
        return planned
    return draft.policies.destination.choose(job, views(draft), leaving=_leaving(node), now_s=draft.now_s)


def _triage(draft: Draft, stakes: list[AtStake], want: Want, uplink_bps: float) -> list[Triage]:
    left_s = want.deadline_s - draft.now_s
    plan = draft.policies.reclaim
    if not want.sends_afterwards:
        return plan.triage(stakes, left_s=left_s, uplink_bps=uplink_bps)
    usable_s = left_s - GUARD_S - GUARD_SHARE * left_s
    savable = [stake for stake in stakes if stake.stall_s <= usable_s]
    hopeless = [stake for stake in stakes if stake.stall_s > usable_s]
    sending_s = want.sent_by_s - draft.now_s
    return [
        *plan.triage(savable, left_s=sending_s, uplink_bps=uplink_bps),
        *plan.triage(hopeless, left_s=left_s, uplink_bps=uplink_bps),
    ]


def _carry_out(
    draft: Draft, node: Node, run: Run, fate: Triage, want: Want, planned: dict[JobId, NodeId]
) -> None:
    job = draft.job_of(run)
    needs_s, left_s = fate.needs_s, want.deadline_s - draft.now_s
    announcing.say_who_wants_it(draft, node, run, want.deadline_s)
    run = draft.state.runs[run.id]
    if fate.rate_bps is None:
        if left_s > 0.0:  # else all is over there, and what its agent made of it comes with its next words
            durable = draft.durable_step(job.id)
            draft.because(job.id, Why.NOTICE_TOO_SHORT, needs_s=needs_s, left_s=left_s, durable=durable)
        moving.begin(
            draft, job, run, Cause.OWNER_RECLAIM, phase=MigrationPhase.FLUSHING, deadline_s=want.deadline_s
        )
        return
    if want.sends_afterwards:
        draft.because(job.id, Why.CAPTURE_FITS, stall_s=job.cost.save_s, left_s=left_s)
    else:
        draft.because(job.id, Why.FLUSH_FITS, needs_s=needs_s, left_s=left_s)
    destination = _destination(draft, node, job, planned.get(job.id))
    gpus = () if destination is None else choose_gpus(job, view(draft, destination))
    moving.flush(
        draft,
        run,
        Cause.OWNER_RECLAIM,
        rate_bps=fate.rate_bps,
        deadline_s=want.deadline_s,
        destination=destination,
        reserved_gpus=tuple(gpu.index for gpu in gpus),
        sent_by_s=want.sent_by_s,
    )
    prefetch.hint(draft, run, destination)
    staging.bring_along(draft, run, destination)


def _runs(draft: Draft, node_id: NodeId) -> list[Run]:
    return [draft.state.runs[run_id] for run_id in sorted(draft.state.living.get(node_id, ()))]
