"""Guests that vanish, alone or with their whole machine, again and again and with nothing to show for it.

Once that is a machine's trouble, and the job goes on elsewhere. A program that brings down what watches over
it, by taking all memory of every machine it is put on for example, would go around the campus for ever. And
who neither makes a step nor saves anything begins anew each time: it would come to its end no more often.
"""

from __future__ import annotations

from gpunion.domain.job import Job
from gpunion.domain.replacing import replace
from gpunion.domain.reports import RunEnded
from gpunion.domain.run import EndReason, Run
from gpunion.engine.draft import Draft

# Many more than machines fail one job by chance before it has made a step: each time it goes to another.
VANISHED_MOST = 10
WORDS = (
    f"its guest or its machine was lost without a word {VANISHED_MOST} times in a row, with neither a step "
    "made nor anything saved in between. Next: look at its log and at the memory it asks for; a program that "
    "tells its steps, or saves now and then, is never given up for this"
)
_VANISHED = (EndReason.GUEST_LOST, EndReason.NODE_LOST)


def counted(draft: Draft, job: Job, run: Run, report: RunEnded) -> Job:
    """The job with this end counted. Whoever has got on since begins from nought, however that run ended."""
    if _got_on(draft, job, run, report):
        return replace(job, vanished=0) if job.vanished else job
    if report.reason not in _VANISHED:
        return job
    return replace(job, vanished=job.vanished + 1)


def too_many(job: Job, report: RunEnded) -> bool:
    return report.reason in _VANISHED and job.vanished >= VANISHED_MOST


def _got_on(draft: Draft, job: Job, run: Run, report: RunEnded) -> bool:
    if max(report.last_step, run.last_step) > run.resumed_step:
        return True
    newest = None if job.durable is None else draft.state.checkpoints.get(job.durable.checkpoint_id)
    return newest is not None and newest.run_id == run.id
