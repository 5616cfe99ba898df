"""How far what is said of a user's program is believed: by what was promised of each piece and what came.

Promised is work: at the pace its user gave the whole of it, or else at the pace its own steps had so far.
What counts is what was saved, and whoever was cut short by an owner or a fault is not judged for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean

from gpunion.domain.jobs.checkpoint import CheckpointPhase
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.profile import Profile, Reliability, program_of
from gpunion.domain.jobs.run import EndReason, Run
from gpunion.domain.protocol.reports import RunEnded
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.learned_history import Memories
from gpunion.policy.windows import calibration

# So much less than was promised is no broken promise: runs of one program differ, and saves stop it.
LENIENT_SHARE, LENIENT_S = 0.1, 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Of one piece, in reference seconds. `left_s`: of the job when it began, as its user said; None: they
    said nothing."""

    done_s: float
    left_s: float | None
    promised: float  # in whatever `durable` is counted
    durable: float
    finished: bool


def rho(memories: Memories, job: Job) -> float:
    """Of a program nobody has seen: as its user is believed with their others, so that a new name is no way
    out."""
    known = memories.programs_of(job.spec.owner)
    one = known.get(program_of(job.spec.image, job.spec.command))
    if one is not None:
        return one.rho
    return fmean(other.rho for other in known.values()) if known else 1.0


def judge(draft: Draft, job: Job, run: Run, report: RunEnded, *, worked_s: float, speed: float) -> None:
    """A piece is over. `worked_s`: it had for its work, without coming up and saving."""
    if report.reason is EndReason.FAILED:
        return  # for want of memory: `doubt`; whatever else was wrong, it promised no time
    ended_for = report.saved_for if report.reason is EndReason.SAVED else report.reason
    if ended_for not in (EndReason.WINDOW, EndReason.FINISHED):
        return
    work = _work(draft, job, run, report, worked_s * speed)
    if work is None:
        return
    lenient_s = max(0.0, (1 - LENIENT_SHARE) * work.done_s - LENIENT_S)
    share = lenient_s / work.done_s if work.done_s > 0 else 0.0
    error = calibration.piece_error(
        promised=0.0 if work.finished else share * work.promised,
        durable=work.durable,
        foretold_s=work.left_s or 0.0,
        took_s=lenient_s,
    )
    draft.put(calibration.believed(_of(draft, job), error, draft.now_s))


def doubt(draft: Draft, job: Job) -> None:
    """It needed more memory than was said."""
    draft.put(calibration.doubted(_of(draft, job), draft.now_s))


def _work(draft: Draft, job: Job, run: Run, report: RunEnded, done_s: float) -> Work | None:
    began_at = _began_at(draft, run)
    if began_at is None:
        return None
    finished = report.reason is EndReason.FINISHED
    step, progress = _saved(draft, job, run)
    said_s, profile = job.spec.expected_s, job.profile or Profile()
    if said_s:
        left_s = said_s * max(0.0, 1.0 - began_at)
        promised = min(1.0 - began_at, done_s / said_s)
        durable = progress - began_at
        return Work(done_s=done_s, left_s=left_s, promised=promised, durable=durable, finished=finished)
    if profile.step_s <= 0 or finished:
        return None  # nothing was promised
    promised, durable = done_s / profile.step_s, float(step - run.resumed_step)
    return Work(done_s=done_s, left_s=None, promised=promised, durable=durable, finished=False)


def _began_at(draft: Draft, run: Run) -> float | None:
    """Of the whole work; None where that is not known any more."""
    if run.restored_from is None:
        return 0.0
    restored = draft.state.checkpoints.get(run.restored_from)
    return None if restored is None else restored.progress


def _saved(draft: Draft, job: Job, run: Run) -> tuple[int, float]:
    """Captured by its machine or durable. That what was captured gets lost on its way is not its doing."""
    unsettled = (draft.state.checkpoints[one] for one in draft.state.unsettled.get(run.id, ()))
    found = [(one.step, one.progress) for one in unsettled if one.phase is CheckpointPhase.CAPTURED]
    if job.durable is not None:
        found.append((job.durable.step, job.durable.progress))
    return max(found, default=(0, 0.0))


def _of(draft: Draft, job: Job) -> Reliability:
    memories, program = draft.state.memories, program_of(job.spec.image, job.spec.command)
    known = memories.programs_of(job.spec.owner).get(program)
    if known is not None:
        return known
    first = Reliability(id=memories.place_for_another(), user=job.spec.owner, program=program)
    return replace(first, rho=rho(memories, job))
