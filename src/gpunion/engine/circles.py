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
    """The job with this end of its program counted, where nobody had asked for it."""
    if report.reason is not EndReason.SAVED or report.saved_for is not None or job.migration is not None:
        return job
    began_s = run.ordered_s if run.started_s is None else run.started_s
    stood = max(report.last_step, run.last_step) <= run.resumed_step and draft.now_s - began_s < QUICK_S
    circles = job.circles + 1 if stood else 0
    return job if circles == job.circles else replace(job, circles=circles)


def too_many(job: Job) -> bool:
    return job.circles >= CIRCLES_MOST
