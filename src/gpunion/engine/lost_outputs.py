"""Jobs that finished, and whose output no place took: kept where they ran, or run again once.

A vault that is full stays full until somebody sees to it, and a whole run is a high price for asking again.
What its machine keeps is sent when there is room: a run more would only shut that out of the vault.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpunion.domain.ids import NodeId
from gpunion.domain.job import Job
from gpunion.domain.reasons import Why
from gpunion.domain.replacing import replace
from gpunion.domain.reports import OutputArrived, RunEnded
from gpunion.domain.run import EndReason, Run
from gpunion.engine.draft import Draft

OUTPUTS_LOST_MOST = 2


def counted(job: Job, report: RunEnded) -> Job:
    if report.reason is not EndReason.OUTPUT_LOST:
        return job
    return replace(job, outputs_lost=job.outputs_lost + 1)


def too_many(members: Iterable[Job]) -> bool:
    """Of a job, or of all members of a gang: all of them run again for one."""
    return sum(one.outputs_lost for one in members) >= OUTPUTS_LOST_MOST


def over_with_it(job: Job, report: RunEnded) -> bool:
    return report.reason is EndReason.OUTPUT_LOST and (bool(report.kept) or too_many([job]))


def arrived(draft: Draft, node_id: NodeId, report: OutputArrived) -> None:
    """From the machine that had kept it. The job has failed for want of it, or for a reason of its own."""
    job = draft.state.jobs.get(report.job_id)
    if job is None or job.epoch != report.epoch or job.output is not None or not job.phase.over:
        return
    draft.put(replace(job, output=report.output))
    draft.because(job.id, Why.OUTPUT_ARRIVED, node=node_id, job=job.id)


def in_words(job: Job, run: Run, report: RunEnded) -> str:
    if report.kept:
        return (
            f"its program has finished, and no place took what it made ({report.detail}). It stays on "
            f"{run.node_id} until {report.kept} and is sent from there once there is room. Next: see that "
            f"its place is there and has room (gpunion places), then fetch it: gpunion cp {job.id}: DIR"
        )
    saved = ""
    if job.durable is not None:
        step = job.durable.step
        saved = f", or fetch what it had made by step {step}, which was saved then: gpunion cp {job.id}: DIR"
    detail = report.detail or "no detail given"
    return (
        f"its program has finished {OUTPUTS_LOST_MOST} times, and what it made could not be kept (the last "
        f"time: {detail}); its machine has removed it with the run. Next: see that its place is there "
        f"and has room (gpunion places), then submit it again{saved}"
    )
