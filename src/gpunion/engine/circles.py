"""Programs that go in circles: "saved, run me again" (status 85) at once, over and over, nothing done."""

from __future__ import annotations

from gpunion.domain.job import Job
from gpunion.domain.replacing import replace
from gpunion.domain.reports import RunEnded
from gpunion.domain.run import EndReason, Run
from gpunion.engine.draft import Draft

# Who works in pieces by ending with status 85 works for longer than this in each, or says that it made steps.
QUICK_S = 10.0
CIRCLES_MOST = 10
WORDS = (
    f"its program ended with status 85 (saved, run me again) {CIRCLES_MOST} times in a row, each time within "
    f"{QUICK_S:.0f} s and without a step. Next: look at its log; a program that fails has to end with "
    "another status"
)


def counted(draft: Draft, job: Job, run: Run, report: RunEnded) -> Job:
    """The job with this end of its program counted, where nobody had asked for it. Whoever has worked since
    begins from nought, however that run ended."""
    if _has_worked(draft, run, report):
        return replace(job, circles=0) if job.circles else job
    if report.reason is not EndReason.SAVED or report.saved_for is not None or job.migration is not None:
        return job
    return replace(job, circles=job.circles + 1)


def _has_worked(draft: Draft, run: Run, report: RunEnded) -> bool:
    if max(report.last_step, run.last_step) > run.resumed_step:
        return True
    if run.started_s is None and report.reason is not EndReason.SAVED:
        return False  # it never began
    began_s = run.ordered_s if run.started_s is None else run.started_s
    return draft.now_s - began_s >= QUICK_S


def too_many(job: Job) -> bool:
    return job.circles >= CIRCLES_MOST
