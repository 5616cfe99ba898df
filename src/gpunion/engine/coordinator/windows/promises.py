"""Places that are kept for jobs that wait: those of tenants whose turn is over, as soon as they have gone."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.gang import leader_of
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.window import Promise
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft

# A tenant that has not gone by then, whoever may be to blame, is not waited for any longer.
LATE_S = 300.0


def is_free(draft: Draft, promised: Promise) -> bool:
    """Whether all of it could be had now."""
    node = draft.state.nodes[promised.node_id]
    if node.unheard:
        return False
    living = (draft.state.runs[one] for one in draft.state.living.get(node.id, ()))
    held = {index for run in living for index in run.held_gpus}
    held |= {gpu.index for gpu in node.withheld}
    return held.isdisjoint(promised.gpus)


def look(draft: Draft) -> None:
    """What cannot be kept any more is given up, and its job waits like the others. A machine that this
    coordinator has not heard of yet may well be there: that shows before it is too late."""
    for node_id in sorted(draft.state.promised):
        node = draft.state.nodes[node_id]
        gone = node.phase is not NodePhase.SHARING or bool(node.isolated_because)
        withheld = {gpu.index for gpu in node.withheld}
        for job in on(draft, node_id):
            assert job.promised is not None
            late = draft.now_s > job.promised.by_s + LATE_S
            if gone or late or not withheld.isdisjoint(job.promised.gpus):
                drop(draft, job)


def dropped(draft: Draft, job: Job, promised: Promise) -> None:
    draft.because(job.id, Why.PROMISE_DROPPED, node=promised.node_id)


def give(draft: Draft, job: Job, promised: Promise) -> None:
    draft.put(replace(draft.state.jobs[job.id], promised=promised))
    by_s = promised.by_s - draft.now_s
    gpus = "GPU " + ", ".join(map(str, promised.gpus))
    draft.because(job.id, Why.PLACE_PROMISED, node=promised.node_id, gpus=gpus, within_s=by_s)


def drop(draft: Draft, job: Job) -> None:
    assert job.promised is not None
    draft.put(replace(job, promised=None))
    dropped(draft, job, job.promised)


def stays(job: Job) -> bool:
    """Whether its promise is kept whoever else would have the place: of jobs that need several GPUs at once,
    on one machine or as a gang. Others find another place sooner."""
    return job.promised is not None and (job.spec.request.gpus > 1 or job.spec.seat is not None)


def given(draft: Draft) -> int:
    """How many of those that stay there are; a gang's count as one."""
    jobs = (draft.state.jobs[one] for job_ids in draft.state.promised.values() for one in job_ids)
    return len(
        {job.id if job.spec.seat is None else leader_of(job.id, job.spec.seat) for job in jobs if stays(job)}
    )


def take_back(draft: Draft, place: Promise) -> None:
    """From those who were promised any of these GPUs alone."""
    for other in on(draft, place.node_id):
        if other.promised is not None and not set(place.gpus).isdisjoint(other.promised.gpus):
            drop(draft, other)


def on(draft: Draft, node_id: NodeId) -> list[Job]:
    """Who was promised something there."""
    return [draft.state.jobs[job_id] for job_id in sorted(draft.state.promised.get(node_id, ()))]
