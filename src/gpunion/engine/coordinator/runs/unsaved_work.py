"""What a guest has to lose, and what it takes to save it."""

from __future__ import annotations

from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.runs import gang_members as gangs
from gpunion.policy.reclaim import AtStake


def at_stake(draft: Draft, run: Run) -> AtStake:
    """Of all members of its gang on the machine, where it is one's."""
    job, together = draft.job_of(run), gangs.beside(draft, run)
    every = [draft.job_of(one) for one in together]
    since_s = run.started_s if run.started_s is not None else draft.now_s
    if job.durable is not None:
        since_s = max(since_s, job.durable.at_s)
    return AtStake(
        run_id=run.id,
        stall_s=max(one.cost.save_s for one in every) + gangs.agreeing_s(draft, job),
        ship_bytes=sum(one.cost.ship_bytes for one in every),
        undurable_s=draft.now_s - since_s,
        weight=sum(max(1, len(one.grant.gpu_indices)) for one in together) * (1.0 + job.spec.priority),
    )


def undecided(draft: Draft, run: Run) -> bool:
    return run.phase is RunPhase.RUNNING and not run.parking and draft.job_of(run).migration is None
