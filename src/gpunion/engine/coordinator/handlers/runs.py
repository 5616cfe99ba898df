"""A run starts and ends, as agents report it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.jobs.run import EndReason, Run, RunPhase
from gpunion.domain.jobs.use import RunUse
from gpunion.domain.protocol.orders import StopRun
from gpunion.domain.protocol.reports import RunEnded, RunStarted
from gpunion.domain.protocol.timers import FenceOver, SaveDue, SilentTooLong, StartOverdue
from gpunion.domain.reasons.reason import Why
from gpunion.domain.system_tier import Tier
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.handlers.interruptions import interrupted
from gpunion.engine.coordinator.planning import staging
from gpunion.engine.coordinator.runs import checkpoint_fallback as going_back
from gpunion.engine.coordinator.runs import evacuation, retry_limits
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.engine.coordinator.runs import whole_guests as dumps
from gpunion.engine.coordinator.runs.save_timer import set_checkpoint_timer
from gpunion.engine.coordinator.windows import between, learning
from gpunion.lifecycle.job import JOB
from gpunion.lifecycle.run import RUN

_SMOOTHING = 0.5
# A program that a signal ended has this and the signal's number as its exit code.
SIGNALS_FROM = 128
# What a shell ends with when it could not begin the program at all.
NOT_BEGUN = {126: ", as when a program may not be executed", 127: ", as when there is no such program"}
SIGNALS = {
    1: "SIGHUP", 2: "SIGINT", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 10: "SIGUSR1",
    11: "SIGSEGV", 12: "SIGUSR2", 15: "SIGTERM",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A run that has just been closed, and what was said of its end."""

    job: Job
    run: Run
    report: RunEnded
    told_to_stop: bool


def started(draft: Draft, node_id: NodeId, report: RunStarted) -> None:
    run, job = draft.state.runs[report.run_id], draft.state.jobs[report.job_id]
    if report.epoch != job.epoch or not run.living:
        draft.came_too_late(report.job_id, report.epoch)
        draft.order(node_id, StopRun(run_id=report.run_id, job_id=report.job_id, epoch=report.epoch))
        return
    draft.cancel_timer(StartOverdue(run_id=run.id))
    if run.phase is not RunPhase.ORDERED:
        return
    run = replace(
        run,
        phase=RUN.check(run.id, run.phase, RunPhase.RUNNING),
        started_s=draft.now_s,
        resumed_step=report.resumed_step,
        last_step=report.resumed_step,
        restored_from=report.restored,
    )
    draft.put(run)
    restart_s = _SMOOTHING * job.cost.restart_s + (1 - _SMOOTHING) * (draft.now_s - run.ordered_s)
    job = replace(
        job,
        phase=JOB.check(job.id, job.phase, JobPhase.RUNNING),
        cost=replace(job.cost, restart_s=restart_s),
        start_failures=0,
        home=job.home or run.node_id,
    )
    draft.put(job)
    if report.restored is None:
        draft.because(job.id, Why.STARTED, node=run.node_id)
    elif report.tier is Tier.SYSTEM:
        draft.because(job.id, Why.RESUMED_WHOLE, node=run.node_id, step=report.resumed_step)
        dumps.came_to_life(draft, run, report)
        job = draft.state.jobs[job.id]
    else:
        draft.because(job.id, Why.RESUMED, node=run.node_id, step=report.resumed_step)
    staging.tell_how_it_came(draft, run, report)
    if report.unreadable:
        job = going_back.to_what_could_be_read(draft, job, report)
        draft.put(job)
    if report.passed_over:
        draft.because(job.id, Why.PLACES_PASSED_OVER, trouble=report.passed_over)
    moving.arrived(draft, job, run)
    set_checkpoint_timer(draft, run)
    evacuation.look(draft, run.node_id)
    staging.hint_where_it_would_go(draft, run)


def closed(draft: Draft, report: RunEnded) -> Ending | None:
    """Closes the run; None where that was nothing new."""
    run, job = draft.state.runs[report.run_id], draft.state.jobs[report.job_id]
    if report.epoch != job.epoch:
        draft.came_too_late(
            report.job_id, report.epoch, **moving.heard_after_all(draft, run, report.last_step)
        )
        return None
    if not run.living:
        _heard_too_late(draft, job, run, report)
        return None
    if run.phase is RunPhase.ORDERED and report.reason is EndReason.STOPPED:
        # Stopped by `start_overdue`: a start that hangs is a start that failed, else it is tried for ever.
        detail = report.detail or "it did not start in time"
        report = replace(report, reason=EndReason.START_FAILED, detail=detail)
    close(draft, run, report.reason, last_step=report.last_step, used=report.used)
    told_to_stop = run.phase is RunPhase.STOPPING
    return Ending(job=job, run=draft.state.runs[run.id], report=report, told_to_stop=told_to_stop)


def ended(draft: Draft, ending: Ending) -> None:
    run, report = ending.run, ending.report
    job = retry_limits.counted(draft, ending.job, run, report)
    known, job = job, learning.learned(draft, job, run, report)
    if job is not known:
        draft.put(job)  # also of one that is over: what it had is shown as long as it is
    if job.phase is JobPhase.STOPPING and report.reason is not EndReason.FINISHED:
        over(draft, job, JobPhase.CANCELLED, report)
        draft.because(job.id, Why.CANCELLED)
    elif report.reason is EndReason.FINISHED:
        _finished(draft, job, run, report)
    elif between.is_over(job, report) and not retry_limits.circled(job):
        between.begin(draft, job, run, report)
    elif report.reason is EndReason.FAILED:
        _failed_by_itself(draft, job, run, report)
    elif retry_limits.over_with_it(job, report):
        _failed(draft, job, report, retry_limits.output_lost_in_words(job, run, report))
    elif (why := retry_limits.used_up(job, report)) is not None:
        _failed(draft, job, report, why)
    else:
        interrupted(draft, job, run, report)


def close(draft: Draft, run: Run, reason: EndReason, *, last_step: int, used: RunUse | None = None) -> None:
    """The run holds nothing any more."""
    draft.put(
        replace(
            run,
            phase=RUN.check(run.id, run.phase, RunPhase.ENDED),
            end_reason=reason,
            ended_s=draft.now_s,
            last_step=max(last_step, draft.known_step(run)),
            used=used,
        )
    )
    for kind in (SaveDue, SilentTooLong, FenceOver, StartOverdue):
        draft.cancel_timer(kind(run_id=run.id))


def given_up(draft: Draft, run_id: RunId) -> Ending | None:
    """Its node has been silent for longer than its guests can have lived."""
    run = draft.state.runs.get(run_id)
    if run is None or not run.living:
        return None
    told_to_stop = run.phase is RunPhase.STOPPING
    lost = RunEnded(
        run_id=run.id,
        job_id=run.job_id,
        epoch=run.epoch,
        reason=EndReason.NODE_LOST,
        last_step=draft.known_step(run),
    )
    close(draft, run, EndReason.NODE_LOST, last_step=lost.last_step)
    run = draft.state.runs[run.id]
    return Ending(job=draft.job_of(run), run=run, report=lost, told_to_stop=told_to_stop)


def start_overdue(draft: Draft, run_id: RunId) -> None:
    """Neither started nor refused for too long. The agent is asked to drop it; its answer moves things on."""
    run = draft.state.runs.get(run_id)
    if run is None or run.phase is not RunPhase.ORDERED:
        return
    if run.id in draft.state.preparing:
        # It said so with its last heartbeat: a large image takes its time, and its agent bounds that.
        draft.set_timer(StartOverdue(run_id=run.id), draft.now_s + draft.timing.start_timeout_s)
    else:
        draft.order(run.node_id, StopRun(run_id=run.id, job_id=run.job_id, epoch=run.epoch))


def failure_of(job: Job, report: RunEnded) -> str:
    """In words for whoever ran it: what its machine saw of its end, or where to look."""
    code = f"exit code {report.exit_code}{_by_signal(job, report.exit_code)}"
    # What a member says of itself is told of the whole gang: whose log it is has to be in it.
    log = "its log" if job.spec.seat is None else f"its log: gpunion logs {job.id}"
    return f"{report.detail} ({code})" if report.detail else f"{code}; see {log}"


def _by_signal(job: Job, exit_code: int | None) -> str:
    """What a shell's number means: nothing may be in the log of a program that was ended from outside."""
    if exit_code is None or exit_code <= SIGNALS_FROM:
        return NOT_BEGUN.get(exit_code or 0, "")
    name = SIGNALS.get(exit_code - SIGNALS_FROM)
    if name is not None and name == job.spec.checkpoint.signal:
        return f", ended by {name}, which asks it to save itself and which it does not handle"
    return "" if name is None else f", ended by {name}"


def _finished(draft: Draft, job: Job, run: Run, report: RunEnded) -> None:
    over(draft, job, JobPhase.SUCCEEDED, report)
    draft.because(job.id, Why.FINISHED, node=run.node_id, moves=moving.moves(draft, job))
    if report.detail:
        draft.because(job.id, Why.OUTPUT_LEFT_OUT, detail=report.detail)


def _failed_by_itself(draft: Draft, job: Job, run: Run, report: RunEnded) -> None:
    """Its program's own doing; what it saved may be to blame, and an earlier save may do."""
    larger = learning.short_of_memory(draft, job, run, report)
    if larger is not None:
        interrupted(draft, larger, run, report)
        return
    detail = failure_of(job, report)
    earlier = going_back.before_what_failed(draft, job, run, report, detail)
    if earlier is not None:
        interrupted(draft, earlier, run, report)
        return
    if going_back.blames_its_save(draft, job, run, report):
        detail = f"{detail}; it had just been given what it saved at step {run.resumed_step}"
    _failed(draft, job, report, detail)


def _failed(draft: Draft, job: Job, report: RunEnded, detail: str) -> None:
    over(draft, job, JobPhase.FAILED, report)
    draft.because(job.id, Why.FAILED, detail=detail)


def over(draft: Draft, job: Job, phase: JobPhase, report: RunEnded) -> None:
    moving.abandon(draft, job)
    job = draft.state.jobs[job.id]
    draft.put(
        replace(
            job,
            phase=JOB.check(job.id, job.phase, phase),
            ended_s=draft.now_s,
            exit_code=report.exit_code,
            output=report.output,
        )
    )


def _heard_too_late(draft: Draft, job: Job, run: Run, report: RunEnded) -> None:
    """The run was given up, but no newer one was started yet: if it had finished, it has finished."""
    alone = job.spec.seat is None  # the others of a gang have been stopped meanwhile: all go on together
    if alone and job.phase is JobPhase.MIGRATING and report.reason is EndReason.FINISHED:
        _finished(draft, job, run, report)
    else:
        draft.came_too_late(job.id, report.epoch, **moving.heard_after_all(draft, run, report.last_step))
