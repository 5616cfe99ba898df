"""Wanted nodes are emptied: each guest is flushed where that fits the notice, and told where it goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpunion.domain.ids import JobId, NodeId, RunId
from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.jobs.migration import Cause, MigrationPhase
from gpunion.domain.jobs.run import Run
from gpunion.domain.nodes.node import Node
from gpunion.domain.nodes.terms import TERM_BEFORE_DEADLINE_S
from gpunion.domain.nodes.withheld import GpuPhase, HoldCause, WithheldGpu
from gpunion.domain.protocol.timers import TurnToLeave
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.capacity import view, views
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning import staging
from gpunion.engine.coordinator.runs import gang_members as gangs
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.engine.coordinator.runs.migrations import migration_of
from gpunion.engine.coordinator.runs.unsaved_work import at_stake, undecided
from gpunion.engine.coordinator.windows import ends
from gpunion.policy.bandwidth import RECLAIM_SHARE, reclaim_cap_bps
from gpunion.policy.checkpoint_timing.turns import Leave, Leaver, turns
from gpunion.policy.placement.filters import refusal
from gpunion.policy.placement.pick import choose_gpus
from gpunion.policy.reclaim import GUARD_S, GUARD_SHARE, AtStake, Triage, work_per_byte

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
    if deadline_s is not None and ends.leaves_by_itself(run, deadline_s):
        return None
    if deadline_s is None or any(gpu.cause is HoldCause.SICK for gpu in wanted_gpus(node, run)):
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
                say_it_works_on(draft, node, run, turn, want.deadline_s)
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
    say_who_wants_it(draft, node, run, want.deadline_s)
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
    staging.hint(draft, run, destination)
    staging.bring_along(draft, run, destination)


def _runs(draft: Draft, node_id: NodeId) -> list[Run]:
    return [draft.state.runs[run_id] for run_id in sorted(draft.state.living.get(node_id, ()))]


def say_who_wants_it(draft: Draft, node: Node, run: Run, deadline_s: float) -> bool:
    """Whether that was news."""
    if run.told_of_s == deadline_s:
        return False
    draft.put(replace(run, told_of_s=deadline_s))
    _say_who_wants_it(draft, node, run, max(0.0, deadline_s - draft.now_s))
    return True


def say_it_works_on(draft: Draft, node: Node, run: Run, later: Later, deadline_s: float) -> None:
    """Its turn to be saved comes later: nobody should hear of the notice only then."""
    if not say_who_wants_it(draft, node, run, deadline_s):
        return
    why = Why.LEAVES_IN_TURN if later.has_place else Why.WORKS_ON_TO_THE_END
    draft.because(run.job_id, why, node=node.id, works_s=max(0.0, later.latest_s))


def say_it_may_stay(draft: Draft, run: Run) -> None:
    """To whom it had been told otherwise."""
    if run.told_of_s is not None:
        draft.put(replace(run, told_of_s=None))
        draft.because(run.job_id, Why.MAY_STAY, node=run.node_id)


def wanted_gpus(node: Node, run: Run) -> list[WithheldGpu]:
    held = run.held_gpus
    return [g for g in node.withheld if g.index in held and g.phase is GpuPhase.RECLAIMING]


def _say_who_wants_it(draft: Draft, node: Node, run: Run, notice_s: float) -> None:
    gpus = wanted_gpus(node, run)
    by_terms = _terms_want_it(node, run, gpus)
    if by_terms is not None:
        why, detail = by_terms
        draft.because(run.job_id, why, node=node.id, detail=detail, notice_s=notice_s)
        return
    if not gpus or node.deadline_s is not None:
        late_s = 0.0 if node.deadline_s is None else draft.now_s - node.deadline_s
        if late_s > draft.timing.heartbeat_s:  # who is in touch is heard sooner
            draft.because(run.job_id, Why.OWNER_TOOK_NODE, node=node.id, ago_s=late_s)
        else:
            draft.because(run.job_id, Why.OWNER_WANTS_NODE, node=node.id, notice_s=notice_s)
        return
    indices = ", ".join(str(gpu.index) for gpu in gpus)
    if any(gpu.cause is HoldCause.OWNER for gpu in gpus):
        draft.because(run.job_id, Why.OWNER_WANTS_GPU, node=node.id, gpus=indices, notice_s=notice_s)
        return
    detail = gpus[0].detail or "a process of theirs"
    draft.because(
        run.job_id, Why.OWNER_COMPUTES, node=node.id, gpus=indices, detail=detail, notice_s=notice_s
    )


def _terms_want_it(node: Node, run: Run, gpus: list[WithheldGpu]) -> tuple[Why, str] | None:
    """Where it is not the owner's word but their terms: which of them."""
    if node.deadline_s is not None:
        return (Why.TERMS_END_LENDING, node.wanted_why) if node.wanted_why else None
    if run.wanted_by_s is not None:
        return Why.TERMS_END_STAY, run.wanted_why or "no detail given"
    if gpus and all(gpu.cause is HoldCause.TERMS for gpu in gpus):
        return Why.TERMS_END_STAY, "; ".join(gpu.because() for gpu in gpus)
    return None


# Closer to its latest moment than this a turn is taken: looking once more would only lose the time.
AT_ONCE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """It works on for now. `latest_s`: from now, when it will be saved at the latest."""

    run_id: RunId
    latest_s: float
    has_place: bool


def whose_turn(
    draft: Draft, node: Node, stakes: Sequence[AtStake], deadline_s: float
) -> tuple[set[RunId], list[Later]]:
    """Who is to be dealt with now. The rest work on; the end of a flush, a place that comes free or the
    timer set here brings the planner back to them."""
    left_s = deadline_s - draft.now_s
    leavers = [_leaver(draft, node, stake) for stake in stakes]
    rate_bps = reclaim_cap_bps(node.facts.lent_uplink_bps)
    plan = turns(
        leavers,
        usable_s=left_s - GUARD_S - GUARD_SHARE * left_s,
        saved_by_s=left_s - TERM_BEFORE_DEADLINE_S,
        rate_bps=rate_bps,
    )
    if plan is None:
        return {stake.run_id for stake in stakes}, []  # no time for that: everybody at once
    has_place = {leaver.run_id for leaver in leavers if leaver.has_place}
    now = _first(draft, node, plan, has_place)
    return now, [
        Later(run_id=turn.run_id, latest_s=turn.latest_s, has_place=turn.run_id in has_place)
        for turn in plan
        if turn.run_id not in now
    ]


def _first(draft: Draft, node: Node, plan: Sequence[Leave], has_place: set[RunId]) -> set[RunId]:
    if active_flush_bps(draft, node.id) > 0.0:
        return set()
    first, *later = plan
    if first.run_id in has_place or first.latest_s <= AT_ONCE_S:
        _look_again(draft, node, later[0].latest_s if later else None)
        return {first.run_id}
    _look_again(draft, node, first.latest_s)
    return set()


def active_flush_bps(draft: Draft, node_id: NodeId) -> float:
    """What flushes already under way on a node's uplink were promised."""
    sources = set(draft.state.living.get(node_id, ()))
    for migration_id in draft.state.moving:  # a run that ended with its last save is still sending it
        migration = draft.state.migrations[migration_id]
        if migration.source_node == node_id:
            sources.add(migration.source_run)
    total = 0.0
    for run_id in sorted(sources):
        for checkpoint_id in sorted(draft.state.unsettled.get(run_id, ())):
            checkpoint = draft.state.checkpoints[checkpoint_id]
            if checkpoint.final:
                total += checkpoint.rate_bps
    return total


def _leaver(draft: Draft, node: Node, stake: AtStake) -> Leaver:
    job = draft.job_of(draft.state.runs[stake.run_id])
    return Leaver(
        run_id=stake.run_id,
        stall_s=stake.stall_s,
        ship_bytes=stake.ship_bytes,
        worth=work_per_byte(stake),
        has_place=not _somebody_stands_still(draft, job) and _place_for(draft, node, job) is not None,
    )


def _place_for(draft: Draft, node: Node, job: Job) -> NodeId | None:
    return draft.policies.destination.choose(job, views(draft), leaving=node.id, now_s=draft.now_s)


def _somebody_stands_still(draft: Draft, job: Job) -> bool:
    """Whoever has stopped already, and has no place kept, goes before one that still works."""
    waiting = (draft.state.jobs[job_id] for job_id in draft.state.waiting)
    gpus = job.spec.request.gpus
    return any(
        one.phase is JobPhase.MIGRATING and one.spec.request.gpus <= gpus and not _has_kept_place(draft, one)
        for one in waiting
    )


def _has_kept_place(draft: Draft, job: Job) -> bool:
    migration = migration_of(draft, job)
    return migration is not None and bool(migration.reserved_gpus)


def _look_again(draft: Draft, node: Node, after_s: float | None) -> None:
    if after_s is not None:
        draft.set_timer(TurnToLeave(node_id=node.id), draft.now_s + max(0.0, after_s))
