"""What could not be handled is set aside, and nobody waits for it: neither its sender nor a job.

A message or request changes nothing more. A timer is tried again some times. One whose run or move would wait
for it for ever ends the job then, as failed: its run is told to stop and is over here, and nothing of the job
is started again, so there are never two of it.
"""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.jobs.migration import MigrationPhase
from gpunion.domain.jobs.run import EndReason, Run, RunPhase
from gpunion.domain.jobs.session import SessionIdle
from gpunion.domain.nodes.trust import NodeMisled, PlanningFailed
from gpunion.domain.protocol.aside import BECAUSE_CHARS, CONTENT_CHARS, KEPT_MOST, SetAside
from gpunion.domain.protocol.events import (
    CoordinatorEvent,
    EventSetAside,
    NodeFellSilent,
    NodeHeard,
    NodeJoined,
    NodeReported,
    ProgramEnded,
    TimerFired,
)
from gpunion.domain.protocol.orders import StopRun
from gpunion.domain.protocol.timers import (
    CoordinatorTimer,
    FenceOver,
    LastSaveOverdue,
    ReplanDue,
    SaveDue,
    SilentTooLong,
    StartOverdue,
)
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.handlers import isolation
from gpunion.lifecycle.job import JOB
from gpunion.lifecycle.run import RUN

# What raises once may pass: another event changes what it was about.
TRY_AGAIN_S = (1.0, 5.0, 30.0, 120.0, 600.0)
# Of one that nothing waits for.
LATER_S = 3600.0
# A failure that is older counts for a new beginning.
IN_A_ROW_S = 2 * LATER_S
PLAN_AGAIN_S = 30.0


def set_aside(draft: Draft, event: EventSetAside) -> None:
    of = event.event
    sender = sender_of(of)
    if sender is not None:
        node = draft.state.nodes.get(sender)
        if node is not None and node.isolated_because:
            return  # told already, and it may go on saying it for long
    kept = _keep(draft, of, event.because)
    draft.because(kept.subject, Why.SET_ASIDE, what=kept.what, because=kept.because)
    if sender is not None:
        isolation.isolate(draft, sender, f"its message {kept.what} could not be handled: {event.because}")
    if isinstance(of, TimerFired):
        _again_or_never(draft, of.timer, kept)


def planning_failed(draft: Draft, event: PlanningFailed) -> None:
    """The one without which it works is at fault; where there is none, time may tell."""
    because = event.because[:BECAUSE_CHARS]
    if event.node_id is not None:
        isolation.isolate(draft, event.node_id, f"jobs cannot be placed while it is there: {because}")
    elif event.job_id is not None:
        give_up_job(draft, draft.state.jobs[event.job_id], f"it cannot be placed: {because}")
    draft.because("campus", Why.PLANNING_FAILED, because=because, again_s=PLAN_AGAIN_S)
    draft.set_timer(ReplanDue(), draft.now_s + PLAN_AGAIN_S)


def sender_of(event: CoordinatorEvent) -> NodeId | None:
    """The node whose own message it is, or whose silence."""
    match event:
        case (
            NodeReported()
            | NodeJoined()
            | NodeHeard()
            | ProgramEnded()
            | NodeFellSilent()
            | NodeMisled()
            | SessionIdle()
        ):
            return event.node_id
        case _:
            return None


def name_of(event: CoordinatorEvent) -> str:
    match event:
        case NodeReported(report=report):
            return type(report).__name__
        case TimerFired(timer=timer):
            return f"timer {timer}"
        case _:
            return type(event).__name__


def give_up_job(draft: Draft, job: Job, because: str) -> None:
    """By the shortest way, since the usual ones may be what raises."""
    if job.phase.over:
        return
    for run in [run for run in draft.state.runs.values() if run.job_id == job.id and run.living]:
        _close(draft, run)
    migration = None if job.migration is None else draft.state.migrations.get(job.migration)
    if migration is not None and migration.phase not in (MigrationPhase.DONE, MigrationPhase.ABANDONED):
        draft.put(replace(migration, phase=MigrationPhase.ABANDONED, reserved_gpus=()))
        draft.cancel_timer(LastSaveOverdue(migration_id=migration.id))
    phase = JobPhase.CANCELLED if job.phase is JobPhase.STOPPING else JobPhase.FAILED
    detail = f"the coordinator could not go on with it ({because}). Next: tell the operator, who finds it in "
    detail += "the coordinator's log; submitted again, it begins anew"
    phase = JOB.check(job.id, job.phase, phase)
    draft.put(replace(job, phase=phase, migration=None, ended_s=draft.now_s))
    draft.because(job.id, Why.FAILED, detail=detail)


def _close(draft: Draft, run: Run) -> None:
    draft.order(run.node_id, StopRun(run_id=run.id, job_id=run.job_id, epoch=run.epoch))
    phase = RUN.check(run.id, run.phase, RunPhase.ENDED)
    draft.put(replace(run, phase=phase, end_reason=EndReason.STOPPED, ended_s=draft.now_s))
    for timer in (SaveDue, SilentTooLong, FenceOver, StartOverdue):
        draft.cancel_timer(timer(run_id=run.id))


def _keep(draft: Draft, event: CoordinatorEvent, because: str) -> SetAside:
    aside, what = draft.state.aside, name_of(event)
    known = next((one for one in aside.values() if one.what == what), None)
    again = known is not None and isinstance(event, TimerFired)
    if known is not None and again:
        id, tries = known.id, known.tries + 1 if draft.now_s - known.at_s <= IN_A_ROW_S else 1
    else:
        free = next((str(n) for n in range(KEPT_MOST) if str(n) not in aside), None)
        id, tries = free or min(aside.values(), key=lambda one: (one.at_s, one.id)).id, 1
    kept = SetAside(
        id=id,
        at_s=draft.now_s,
        what=what,
        subject=_subject(draft, event),
        because=because[:BECAUSE_CHARS],
        content=repr(event)[:CONTENT_CHARS],
        tries=tries,
    )
    draft.put(kept)
    return kept


def _subject(draft: Draft, event: CoordinatorEvent) -> str:
    """In whose story it is told."""
    sender = sender_of(event)
    if sender is not None:
        return sender
    if isinstance(event, TimerFired):
        job = _job_of(draft, event.timer)
        return str(event.timer) if job is None else job.id
    return str(getattr(event, "job_id", "campus"))


def _again_or_never(draft: Draft, timer: CoordinatorTimer, kept: SetAside) -> None:
    if kept.tries <= len(TRY_AGAIN_S):
        draft.set_timer(timer, draft.now_s + TRY_AGAIN_S[kept.tries - 1])
        return
    match timer:
        case SilentTooLong() | FenceOver() | StartOverdue() | LastSaveOverdue():
            draft.cancel_timer(timer)
            job = _job_of(draft, timer)
            if job is not None:
                give_up_job(draft, job, f"{kept.what}: {kept.because}")
        case _:
            draft.set_timer(timer, draft.now_s + LATER_S)


def _job_of(draft: Draft, timer: CoordinatorTimer) -> Job | None:
    match timer:
        case SaveDue() | SilentTooLong() | FenceOver() | StartOverdue():
            run = draft.state.runs.get(timer.run_id)
            return None if run is None else draft.state.jobs.get(run.job_id)
        case LastSaveOverdue():
            migration = draft.state.migrations.get(timer.migration_id)
            return None if migration is None else draft.state.jobs.get(migration.job_id)
        case _:
            return None
