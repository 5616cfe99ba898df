"""Homecoming: a job that was driven from a better place goes back when that pays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpunion.domain.job import Job
from gpunion.domain.migration import Cause
from gpunion.domain.node import Node, NodePhase
from gpunion.domain.reasons import Why
from gpunion.domain.run import Run, RunPhase
from gpunion.engine import moving, staging
from gpunion.engine.capacity import view
from gpunion.engine.departing import active_flush_bps
from gpunion.engine.draft import Draft
from gpunion.policy.bandwidth import reclaim_cap_bps
from gpunion.policy.homecoming import WayHome
from gpunion.policy.placement.filters import refusal
from gpunion.policy.placement.pick import choose_gpus


def send(draft: Draft) -> None:
    for run in _away(draft):
        job = draft.job_of(run)
        home = draft.state.nodes.get(job.home) if job.home is not None else None
        if home is None or home.phase is not NodePhase.SHARING:
            continue
        gain_s = _gain_s(draft, job, run, home)
        if gain_s is not None and refusal(job, view(draft, home.id), draft.now_s) is None:
            _go(draft, job, run, home, gain_s)


def anybody_away(draft: Draft) -> bool:
    return next(_away_in_any_order(draft), None) is not None


def _away(draft: Draft) -> list[Run]:
    return sorted(_away_in_any_order(draft), key=lambda run: run.id)


def _away_in_any_order(draft: Draft) -> Iterator[Run]:
    for runs in draft.state.living.values():
        for run_id in runs:
            run = draft.state.runs[run_id]
            job = draft.job_of(run)
            free_to_go = run.phase is RunPhase.RUNNING and not run.parking and job.migration is None
            if free_to_go and job.home != run.node_id:
                yield run


def _gain_s(draft: Draft, job: Job, run: Run, home: Node) -> float | None:
    remaining_s = _remaining_s(draft, job, run)
    if remaining_s is None:
        return None
    way = WayHome(
        remaining_s=remaining_s,
        speed_here=_speed(draft.state.nodes[run.node_id], run.grant.gpu_indices),
        speed_home=home.facts.capacity.speed,
        downtime_s=_downtime_s(draft, job, run),
    )
    return draft.policies.homecoming.gain_s(way)


def _go(draft: Draft, job: Job, run: Run, home: Node, gain_s: float) -> None:
    source = draft.state.nodes[run.node_id]
    spare_bps = reclaim_cap_bps(source.facts.lent_uplink_bps) - active_flush_bps(draft, source.id)
    if spare_bps <= 0:
        return  # the uplink is busy saving others from a deadline; next time
    gpus = choose_gpus(job, view(draft, home.id))
    draft.because(job.id, Why.GOING_HOME, node=home.id, gain_s=gain_s)
    moving.flush(
        draft,
        run,
        Cause.HOMECOMING,
        rate_bps=spare_bps,
        deadline_s=None,
        destination=home.id,
        reserved_gpus=tuple(gpu.index for gpu in gpus),
    )
    staging.bring_along(draft, run, home.id)


def _remaining_s(draft: Draft, job: Job, run: Run) -> float | None:
    """Work left at reference speed: from the guest's own guess, or from the pace seen here."""
    step, progress = draft.state.progress.get(run.id, (run.resumed_step, 0.0))
    if job.spec.expected_s is not None:
        done = max(progress, job.durable.progress if job.durable else 0.0)
        return job.spec.expected_s * (1 - done)
    if run.started_s is None or progress <= 0 or step <= run.resumed_step:
        return None
    pace_per_s = (step - run.resumed_step) / max(draft.now_s - run.started_s, 1e-6)
    steps_left = step / progress - step
    speed_here = _speed(draft.state.nodes[run.node_id], run.grant.gpu_indices)
    return steps_left / pace_per_s * speed_here


def _downtime_s(draft: Draft, job: Job, run: Run) -> float:
    uplink_bps = draft.state.nodes[run.node_id].facts.lent_uplink_bps
    ship_s = 8.0 * job.cost.ship_bytes / max(reclaim_cap_bps(uplink_bps), 1.0)
    return job.cost.save_s + ship_s + job.cost.restart_s


def _speed(node: Node, gpu_indices: tuple[int, ...]) -> float:
    held = tuple(gpu for gpu in node.facts.capacity.gpus if gpu.index in gpu_indices)
    return replace(node.facts.capacity, gpus=held).speed
