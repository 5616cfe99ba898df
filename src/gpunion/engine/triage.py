"""Wanted nodes are emptied: each guest is flushed where that fits the notice, and told where it goes."""

from __future__ import annotations

from gpunion.domain.ids import NodeId
from gpunion.domain.migration import Cause, MigrationPhase
from gpunion.domain.node import Node
from gpunion.domain.reasons import Why
from gpunion.domain.run import Run, RunPhase
from gpunion.engine import moving
from gpunion.engine.capacity import view, views
from gpunion.engine.draft import Draft
from gpunion.policy.bandwidth import RECLAIM_SHARE
from gpunion.policy.placement.pick import choose_gpus
from gpunion.policy.reclaim import AtStake, Triage


def empty_wanted_nodes(draft: Draft) -> None:
    for node_id in sorted(draft.state.reclaiming):
        node = draft.state.nodes[node_id]
        runs = [run for run in _runs(draft, node_id) if _undecided(draft, run)]
        if runs and node.deadline_s is not None:
            _decide(draft, node, runs, node.deadline_s)


def active_flush_bps(draft: Draft, node_id: NodeId) -> float:
    """What flushes already under way on a node's uplink were promised."""
    sources = {run.id for run in _runs(draft, node_id)}
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


def _decide(draft: Draft, node: Node, runs: list[Run], deadline_s: float) -> None:
    left_s = deadline_s - draft.now_s
    uplink_bps = node.facts.capacity.uplink_bps - active_flush_bps(draft, node.id) / RECLAIM_SHARE
    stakes = [_at_stake(draft, run) for run in runs]
    by_id = {run.id: run for run in runs}
    plan = draft.policies.reclaim.triage(stakes, left_s=left_s, uplink_bps=max(uplink_bps, 1.0))
    for fate in plan:
        _carry_out(draft, by_id[fate.run_id], fate, deadline_s)


def _carry_out(draft: Draft, run: Run, fate: Triage, deadline_s: float) -> None:
    job = draft.job_of(run)
    needs_s, left_s = fate.needs_s, fate.left_s
    draft.because(job.id, Why.OWNER_WANTS_NODE, node=run.node_id, notice_s=max(0.0, left_s))
    if fate.rate_bps is None:
        durable = draft.durable_step(job.id)
        draft.because(job.id, Why.NOTICE_TOO_SHORT, needs_s=needs_s, left_s=left_s, durable=durable)
        moving.begin(
            draft, job, run, Cause.OWNER_RECLAIM, phase=MigrationPhase.FLUSHING, deadline_s=deadline_s
        )
        return
    draft.because(job.id, Why.FLUSH_FITS, needs_s=needs_s, left_s=left_s)
    destination = draft.policies.destination.choose(job, views(draft), leaving=run.node_id, now_s=draft.now_s)
    gpus = () if destination is None else choose_gpus(job, view(draft, destination))
    moving.flush(
        draft,
        run,
        Cause.OWNER_RECLAIM,
        rate_bps=fate.rate_bps,
        deadline_s=deadline_s,
        destination=destination,
        reserved_gpus=tuple(gpu.index for gpu in gpus),
    )


def _at_stake(draft: Draft, run: Run) -> AtStake:
    job = draft.job_of(run)
    since_s = run.started_s if run.started_s is not None else draft.now_s
    if job.durable is not None:
        since_s = max(since_s, job.durable.at_s)
    return AtStake(
        run_id=run.id,
        stall_s=job.cost.stall_s,
        ship_bytes=job.cost.ship_bytes,
        undurable_s=draft.now_s - since_s,
        weight=max(1, len(run.grant.gpu_indices)) * (1.0 + job.spec.priority),
    )


def _undecided(draft: Draft, run: Run) -> bool:
    return run.phase is RunPhase.RUNNING and draft.job_of(run).migration is None


def _runs(draft: Draft, node_id: NodeId) -> list[Run]:
    return [draft.state.runs[run_id] for run_id in sorted(draft.state.living.get(node_id, ()))]
