"""What the policy needs to know of a job that bids."""

from __future__ import annotations

from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.run import Run
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.windows import reliability
from gpunion.engine.coordinator.windows.ends import UNKNOWN
from gpunion.policy.fairness import Shares
from gpunion.policy.windows.bidding import Bidder
from gpunion.policy.windows.scoring import behind


def bidder_of(
    draft: Draft,
    job: Job,
    shares: Shares,
    *,
    run: Run | None = None,
    window: int | None = None,
    only: frozenset[int] | None = None,
) -> Bidder:
    """`run` and `window`: of a tenant, what it has now. `only`: the windows that would not refuse it."""
    policy = draft.policies.windows
    assert policy is not None
    wish, profile = job.spec.windows, job.profile or UNKNOWN
    waited_s = 0.0 if run is not None else draft.now_s - job.waiting_since_s
    served_s = profile.worked_s * job.spec.request.gpus
    if run is not None and run.started_s is not None:
        served_s += run.held_gpu_s(draft.now_s)
    warm = frozenset(copy.node_id for copy in job.copies if copy.there)
    return Bidder(
        job_id=job.id,
        gpus=max(1, job.spec.request.gpus),
        profile=profile,
        cost=job.cost,
        declared_bytes=job.spec.request.vram_bytes,
        learned=wish.learned_vram and policy.learned_memory,
        safe_every=wish.safe_every,
        wanted_s=wish.shortest_s,
        longest_s=wish.longest_s,
        left_s=left_s(draft, job, run),
        waited_s=waited_s,
        served_s=served_s,
        behind=behind(job, draft.now_s),
        standing=shares.standing(job.spec.lab, job.spec.owner)[0],
        rho=reliability.rho(draft.state.memories, job) if policy.calibration else 1.0,
        priority=int(job.spec.priority),
        warm=warm,
        only=only,
        incumbent=window,
    )


def left_s(draft: Draft, job: Job, run: Run | None) -> float | None:
    """Of its work, at reference speed, as its user guessed it."""
    if job.spec.expected_s is None:
        return None
    done = 0.0 if job.durable is None else job.durable.progress
    if run is not None:
        done = max(done, draft.state.progress.get(run.id, (0, 0.0))[1])
    return job.spec.expected_s * max(0.0, 1.0 - done)
