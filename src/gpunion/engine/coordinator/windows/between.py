"""A piece of a job is over: what it saved arrives, and the job waits for its next window as others do."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import CheckpointId, RunId, run_id
from gpunion.domain.jobs.checkpoint import Checkpoint, CheckpointPhase, CheckpointTrouble
from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.jobs.run import EndReason, Run
from gpunion.domain.protocol.reports import RunEnded
from gpunion.domain.protocol.timers import PieceOverdue
from gpunion.domain.reasons.reason import Why
from gpunion.domain.reasons.wording import TROUBLE_IN_WORDS
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.engine.coordinator.runs.save_timer import saved_s
from gpunion.lifecycle.job import JOB


def is_over(job: Job, report: RunEnded) -> bool:
    """Whether its window was over, and nothing else. A job that was asked to move goes the way of moves."""
    ended_for = report.saved_for if report.reason is EndReason.SAVED else report.reason
    return job.spec.atomizable and ended_for is EndReason.WINDOW and job.migration is None


def begin(draft: Draft, job: Job, run: Run, report: RunEnded) -> None:
    awaited = _on_its_way(draft, run)
    phase = JOB.check(job.id, job.phase, JobPhase.BETWEEN)
    awaits = None if awaited is None else awaited.id
    draft.put(replace(job, phase=phase, waiting_since_s=draft.now_s, awaits=awaits, home=None))
    if report.reason is EndReason.WINDOW:
        since_s = saved_s(draft, run)
        if awaited is not None and awaited.captured_s is not None:
            since_s = max(since_s, awaited.captured_s)
        lost_s, durable = max(0.0, draft.now_s - since_s), draft.durable_step(job.id)
        draft.because(job.id, Why.WINDOW_MISSED, node=run.node_id, lost_s=lost_s, durable=durable)
    else:
        step = max(report.last_step, draft.durable_step(job.id))
        draft.because(job.id, Why.WINDOW_OVER, node=run.node_id, step=step)
    if awaited is not None:
        sent_s = moving.sent_within_s(job, awaited.rate_bps, awaited.size_bytes)
        late_s = draft.now_s + draft.timing.save_timeout_s + sent_s
        draft.set_timer(PieceOverdue(run_id=run.id), late_s)


def settled(draft: Draft, checkpoint_id: CheckpointId, job: Job, trouble: CheckpointTrouble | None) -> None:
    """What it saved has arrived, or will not."""
    if job.awaits == checkpoint_id:
        _goes_on(draft, job, "" if trouble is None else TROUBLE_IN_WORDS[trouble])


def overdue(draft: Draft, of: RunId) -> None:
    run = draft.state.runs.get(of)
    job = None if run is None else draft.state.jobs.get(run.job_id)
    if job is None or job.phase.over:
        return  # its user may have stopped it meanwhile
    if job.awaits is not None and of == run_id(job.id, job.epoch):
        _goes_on(draft, job, "no word of it")


def _goes_on(draft: Draft, job: Job, trouble: str) -> None:
    draft.cancel_timer(PieceOverdue(run_id=run_id(job.id, job.epoch)))
    draft.put(replace(job, awaits=None))
    if trouble:
        durable = draft.durable_step(job.id)
        draft.because(job.id, Why.WINDOW_SAVE_LOST, trouble=trouble, durable=durable)


def _on_its_way(draft: Draft, run: Run) -> Checkpoint | None:
    """What it saved last, if that was captured and is neither durable nor lost."""
    unsettled = (draft.state.checkpoints[one] for one in draft.state.unsettled.get(run.id, ()))
    captured = [one for one in unsettled if one.phase is CheckpointPhase.CAPTURED]
    return max(captured, key=lambda one: (one.step, one.id), default=None)
