"""Jobs that finished, and whose output could not be kept: run again once, and not for ever.

A vault that is full stays full until somebody sees to it, and a whole run is a high price for asking again.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpunion.domain.job import Job
from gpunion.domain.replacing import replace
from gpunion.domain.reports import RunEnded
from gpunion.domain.run import EndReason

OUTPUTS_LOST_MOST = 2


def counted(job: Job, report: RunEnded) -> Job:
    if report.reason is not EndReason.OUTPUT_LOST:
        return job
    return replace(job, outputs_lost=job.outputs_lost + 1)


def too_many(members: Iterable[Job]) -> bool:
    """Of a job, or of all members of a gang: all of them run again for one."""
    return sum(one.outputs_lost for one in members) >= OUTPUTS_LOST_MOST


def in_words(job: Job, report: RunEnded) -> str:
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
