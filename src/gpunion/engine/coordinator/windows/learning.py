"""What is learned from each piece of a job that runs in windows: how long its steps, its coming and its going
take, how much memory it has, and how far what was foretold came true."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.profile import Profile, Seen
from gpunion.domain.jobs.run import EndReason, Run
from gpunion.domain.protocol.reports import RunEnded
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.windows import reliability
from gpunion.limits import STEP_MIN_S
from gpunion.policy.windows import calibration

# What is measured there and here may differ by that much.
MOST_DRIFT = 0.05
# Two clocks apart, a window may be over so much before its end.
EARLY_S = 5.0


def learned(draft: Draft, job: Job, run: Run, report: RunEnded) -> Job:
    """However it ended: one that its owner cut short has been seen as well."""
    if not job.spec.atomizable or run.started_s is None or run.subjob is None:
        return job
    former, seen = job.profile or Profile(), _plausible(draft, run, report.seen or Seen())
    speed, judged = _speed(draft, run), True
    if report.reason is not EndReason.WINDOW:
        profile = calibration.learned(former, seen, speed)
    elif _was_over(draft, run):
        profile = calibration.missed(former, seen, speed)
    else:
        profile, judged = calibration.learned(former, replace(seen, took_s=None), speed), False
    worked_s = max(0.0, draft.now_s - run.started_s)
    overhead_s = min(worked_s, (seen.begin_s or 0.0) + (seen.save_s or 0.0))
    if judged:
        reliability.judge(draft, job, run, report, worked_s=worked_s - overhead_s, speed=speed)
    if report.reason is EndReason.FAILED and (seen.short_of_memory or _had_less(draft, job, run)):
        reliability.doubt(draft, job)
    profile = replace(
        profile,
        pieces=former.pieces + 1,
        worked_s=former.worked_s + worked_s,
        overhead_s=former.overhead_s + overhead_s,
    )
    return replace(job, profile=profile)


def _was_over(draft: Draft, run: Run) -> bool:
    """By what its machine was told. Else it ended the run for a window that had no such end, and nobody is to
    be believed less for that."""
    ends_s = None if run.subjob is None else run.subjob.ends_s
    return ends_s is not None and draft.now_s >= ends_s - EARLY_S


def _plausible(draft: Draft, run: Run, seen: Seen) -> Seen:
    """What a machine says of a piece, as far as it can be: nothing took longer than its run was there, and no
    more memory was in use than its GPUs have. Steps that take no time were not timed. Else one report would
    spoil what is foretold of its job, or planning for the campus with it."""
    there_s = max(0.0, draft.now_s - run.ordered_s)
    timed = seen.step_s >= STEP_MIN_S
    steps = seen.steps if timed else 0
    if steps * seen.step_s > (1 + MOST_DRIFT) * there_s:
        steps = int(there_s / seen.step_s)
    memory_bytes = _memory_bytes(draft, run)
    return replace(
        seen,
        steps=steps,
        step_s=seen.step_s if timed else 0.0,
        step_sd_s=min(seen.step_sd_s, there_s),
        worst_step_s=min(seen.worst_step_s, there_s),
        begin_s=None if seen.begin_s is None else min(seen.begin_s, there_s),
        save_s=None if seen.save_s is None else min(seen.save_s, there_s),
        peak_bytes=seen.peak_bytes if memory_bytes is None else min(seen.peak_bytes, memory_bytes),
        took_s=None if seen.took_s is None else min(seen.took_s, there_s),
    )


def short_of_memory(draft: Draft, job: Job, run: Run, report: RunEnded) -> Job | None:
    """The job with that learned, where it failed on less memory than it had asked for: that is no failure of
    its own. None where it had what it asked for."""
    if report.reason is not EndReason.FAILED or run.subjob is None or not job.spec.atomizable:
        return None
    has_bytes = _memory_bytes(draft, run)
    if has_bytes is None or not _had_less(draft, job, run):
        return None
    durable = draft.durable_step(job.id)
    told = report.seen is not None and report.seen.short_of_memory
    why = Why.SHORT_OF_MEMORY if told else Why.FAILED_ON_LESS
    draft.because(job.id, why, node=run.node_id, durable=durable)
    profile = calibration.short_of_memory(job.profile or Profile(), has_bytes)
    return replace(job, profile=replace(profile, pieces=(job.profile or Profile()).pieces))


def _had_less(draft: Draft, job: Job, run: Run) -> bool:
    has_bytes = _memory_bytes(draft, run)
    return has_bytes is not None and has_bytes < job.spec.request.vram_bytes


def _speed(draft: Draft, run: Run) -> float:
    gpus = draft.state.nodes[run.node_id].facts.capacity.gpus
    return min((gpu.speed for gpu in gpus if gpu.index in run.grant.gpu_indices), default=1.0)


def _memory_bytes(draft: Draft, run: Run) -> int | None:
    """Of the smallest of its GPUs, as large as its owner lends them."""
    gpus = draft.state.nodes[run.node_id].facts.lent_gpus
    return min((gpu.memory_bytes for gpu in gpus if gpu.index in run.grant.gpu_indices), default=None)
