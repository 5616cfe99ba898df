"""How often a job may meet each trouble that comes again by itself: one table, and what it fails with then.

A job goes on elsewhere after any interruption, and nobody counts those. What is counted here is caused by the
job or by its place, comes again each time, and would go around the campus for ever. Why each has its bound,
and which ends have none: docs/decisions/0027.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum

from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.run import EndReason, Run
from gpunion.domain.protocol.reports import RunEnded
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft


class Trouble(Enum):
    """Its value is the field of the job that counts it."""

    START_FAILED = "start_failures"  # in a row; each time on another machine
    DUMP_REFUSED = "dump_failures"  # in a row: a whole guest that did not come to life
    SAVE_USELESS = "went_back"  # in a row: it went back by one save
    CIRCLES = "circles"  # in a row: ended with "saved, run me again" (status 85) at once, nothing done
    VANISHED = "vanished"  # in a row: its guest or its machine was lost, with neither a step nor a save
    OUTPUT_LOST = "outputs_lost"  # in all: it had finished, and no place took what it made


AT_MOST: Mapping[Trouble, int] = {
    Trouble.START_FAILED: 3,
    Trouble.DUMP_REFUSED: 2,  # two machines that cannot bring it back: then it is the dump, or nobody can
    Trouble.SAVE_USELESS: 2,  # who fails after three saves fails for another reason, and a vault keeps three
    Trouble.CIRCLES: 10,
    Trouble.VANISHED: 10,  # many more than machines fail one job by chance before it has made a step
    Trouble.OUTPUT_LOST: 2,  # a full vault stays full, and a whole run is a high price for asking again
}
# Who works in pieces by ending with status 85 works for longer than this in each, or says that it made steps.
QUICK_S = 10.0

_VANISHED = (EndReason.GUEST_LOST, EndReason.NODE_LOST)


def reached(trouble: Trouble, times: int) -> bool:
    return times >= AT_MOST[trouble]


def circled(job: Job) -> bool:
    return reached(Trouble.CIRCLES, job.circles)


def counted(draft: Draft, job: Job, run: Run, report: RunEnded) -> Job:
    """The job with this end of a run counted. Whoever got on since the last begins from nought, however that
    run ended."""
    circles = _circles(draft, job, run, report)
    vanished = _vanished(draft, job, run, report)
    outputs_lost = job.outputs_lost + (report.reason is EndReason.OUTPUT_LOST)
    return replace(job, circles=circles, vanished=vanished, outputs_lost=outputs_lost)


def outputs_lost(members: Iterable[Job]) -> bool:
    """Of a job, or of all members of a gang: all of them run again for one."""
    return reached(Trouble.OUTPUT_LOST, sum(one.outputs_lost for one in members))


def over_with_it(job: Job, report: RunEnded) -> bool:
    """What its machine keeps is sent when there is room: a run more would only shut that out of the vault."""
    return report.reason is EndReason.OUTPUT_LOST and (bool(report.kept) or outputs_lost([job]))


def used_up(job: Job, report: RunEnded) -> str | None:
    """Why it is not run again, in words; None where it is."""
    if circled(job):
        return (
            f"its program ended with status 85 (saved, run me again) {AT_MOST[Trouble.CIRCLES]} times in a "
            f"row, each time within {QUICK_S:.0f} s and without a step. Next: look at its log; a program "
            "that fails has to end with another status"
        )
    if report.reason in _VANISHED and reached(Trouble.VANISHED, job.vanished):
        return (
            f"its guest or its machine was lost without a word {AT_MOST[Trouble.VANISHED]} times in a row, "
            "with neither a step made nor anything saved in between. Next: look at its log and at the memory "
            "it asks for; a program that tells its steps, or saves now and then, is never given up for this"
        )
    if report.reason is EndReason.START_FAILED and reached(Trouble.START_FAILED, job.start_failures + 1):
        return _no_start(report)
    return None


def _no_start(report: RunEnded) -> str:
    tries = AT_MOST[Trouble.START_FAILED]
    if report.why is Why.SAVE_UNREADABLE:
        return (
            f"what it had saved could not be read in {tries} tries: {report.detail}. Next: gpunion "
            "vault verify says what is damaged there; submitted again, it begins anew"
        )
    return f"could not be started in {tries} tries: {report.detail}"


def output_lost_in_words(job: Job, run: Run, report: RunEnded) -> str:
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
        f"its program has finished {AT_MOST[Trouble.OUTPUT_LOST]} times, and what it made could not be kept "
        f"(the last time: {detail}); its machine has removed it with the run. Next: see that its place is "
        f"there and has room (gpunion places), then submit it again{saved}"
    )


def _circles(draft: Draft, job: Job, run: Run, report: RunEnded) -> int:
    """A program that says "saved, run me again" at once, over and over, where nobody had asked for it."""
    if _has_worked(draft, run, report):
        return 0
    asked = report.saved_for is not None and not _long_before_its_window_ends(draft, run, report)
    if report.reason is not EndReason.SAVED or asked or job.migration is not None:
        return job.circles
    return job.circles + 1


def _long_before_its_window_ends(draft: Draft, run: Run, report: RunEnded) -> bool:
    """Its machine says that it ended for its window, as one does that stops in time. Not so early, and not
    without having made a step."""
    subjob = run.subjob
    if report.saved_for is not EndReason.WINDOW or subjob is None:
        return False
    return subjob.ends_s is None or draft.now_s < subjob.ends_s - subjob.save_s - QUICK_S


def _has_worked(draft: Draft, run: Run, report: RunEnded) -> bool:
    if _made_steps(run, report):
        return True
    if run.started_s is None and report.reason is not EndReason.SAVED:
        return False  # it never began
    began_s = run.ordered_s if run.started_s is None else run.started_s
    return draft.now_s - began_s >= QUICK_S


def _vanished(draft: Draft, job: Job, run: Run, report: RunEnded) -> int:
    """Once it is a machine's trouble. A program that brings down what watches over it, by taking all memory
    of every machine it is put on for example, is lost again and again with nothing to show for it."""
    if _made_steps(run, report) or _saved_by(draft, job, run):
        return 0
    return job.vanished + (report.reason in _VANISHED)


def _made_steps(run: Run, report: RunEnded) -> bool:
    return max(report.last_step, run.last_step) > run.resumed_step


def _saved_by(draft: Draft, job: Job, run: Run) -> bool:
    newest = None if job.durable is None else draft.state.checkpoints.get(job.durable.checkpoint_id)
    return newest is not None and newest.run_id == run.id
