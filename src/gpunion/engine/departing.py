"""The guests of a wanted machine take turns to leave (`policy/scheduling/turns.py` says how)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.job import Job, JobPhase
from gpunion.domain.node import Node
from gpunion.domain.terms import TERM_BEFORE_DEADLINE_S
from gpunion.engine.capacity import views
from gpunion.engine.draft import Draft
from gpunion.engine.moving import migration_of
from gpunion.policy.bandwidth import reclaim_cap_bps
from gpunion.policy.reclaim import GUARD_S, GUARD_SHARE, AtStake, work_per_byte
from gpunion.policy.scheduling.turns import Leaver, Turn, turns

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


def _first(draft: Draft, node: Node, plan: Sequence[Turn], has_place: set[RunId]) -> set[RunId]:
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
        draft.set_timer(f"leave:{node.id}", draft.now_s + max(0.0, after_s))
