"""The members of a gang, seen together: where they are, when they save, what all of them have saved."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from gpunion.domain.ids import CheckpointId, checkpoint_id, own_checkpoint_id, run_id
from gpunion.domain.jobs.checkpoint import Checkpoint, CheckpointPhase
from gpunion.domain.jobs.gang import member_ids
from gpunion.domain.jobs.job import DurablePoint, Job, JobPhase
from gpunion.domain.jobs.migration import MigrationPhase
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.runs.checkpoint_fallback import to_go_back_to
from gpunion.policy.gangs.agreeing import Mark, Reached, mark, newest_common, save_step, save_wait_s

# Members save in rounds, so what belongs together is among the last saves of each.
SAVES_LOOKED_AT = 8
# How fast a member goes is told from at least so many heartbeats.
BEATS_OF_PACE = 2.0


def members(draft: Draft, job: Job) -> list[Job]:
    """By rank; of a job that is no gang's, itself."""
    seat = job.spec.seat
    if seat is None:
        return [job]
    return [draft.state.jobs[one] for one in member_ids(job.id, seat)]


def all_seek(draft: Draft, job: Job) -> bool:
    """Whether every member waits, and nothing of it is still on its way to the vault."""
    every = members(draft, job)
    moving = (draft.state.migrations[one.migration] for one in every if one.migration is not None)
    return all(one.phase.waiting for one in every) and all(
        migration.phase is MigrationPhase.SEEKING for migration in moving
    )


def as_one(job: Job) -> Job:
    """A member that asks for what all of them ask for: quotas count that."""
    if job.spec.seat is None:
        return job
    request = replace(job.spec.request, gpus=job.spec.seat.size * job.spec.request.gpus)
    return replace(job, spec=replace(job.spec, request=request))


def newest_run(draft: Draft, job: Job) -> Run | None:
    return draft.state.runs.get(run_id(job.id, job.epoch))


def running_together(draft: Draft, job: Job) -> list[Run]:
    """The runs of all members, by rank; none of them unless all run."""
    runs = [newest_run(draft, one) for one in members(draft, job)]
    together = [run for run in runs if run is not None and run.phase is RunPhase.RUNNING]
    return together if len(together) == len(runs) else []


def beside(draft: Draft, run: Run) -> list[Run]:
    """Itself and the running members on the same machine: they save with it, and share its wire."""
    runs = (newest_run(draft, one) for one in members(draft, draft.job_of(run)))
    return [one for one in runs if one and one.phase is RunPhase.RUNNING and one.node_id == run.node_id]


def saving(draft: Draft, runs: list[Run]) -> bool:
    """Whether one of them has a save under way."""
    return any(draft.state.unsettled.get(run.id) for run in runs)


def step_to_save(draft: Draft, job: Job) -> int:
    """Where a save of all members is to be taken; 0, at once, for a job that is no gang's."""
    if job.spec.seat is None:
        return 0
    return save_step(_all_reached(draft, job), draft.timing.heartbeat_s)


def agreeing_s(draft: Draft, job: Job) -> float:
    """How much longer a save takes for having to be at the same step."""
    if job.spec.seat is None:
        return 0.0
    return save_wait_s(_all_reached(draft, job), draft.timing.heartbeat_s)


def saved_by_s(draft: Draft, job: Job, by_s: float | None) -> float | None:
    """Until when a save is waited for. Of a gang's it is known how long its members are on their way to the
    step, and an agent would give up a program in the middle of it; other jobs are left to their agents."""
    if job.spec.seat is None:
        return by_s
    answered_s = draft.now_s + agreeing_s(draft, job) + draft.timing.save_timeout_s
    return answered_s if by_s is None else min(by_s, answered_s)


def advance(draft: Draft, job: Job) -> None:
    """Durable is what all members can go on from: the newest of which each has a save, of this epoch."""
    every = members(draft, job)
    saved = [_saved(draft, one) for one in every]
    common = newest_common(saved)
    if common is None or any(common <= _durable_mark(draft, one) for one in every):
        _say_apart(draft, every)
        return
    for one, checkpoints in zip(every, saved, strict=True):
        checkpoint = checkpoints[common]
        point = DurablePoint(
            checkpoint_id=checkpoint.id,
            step=checkpoint.step,
            progress=checkpoint.progress,
            at_s=draft.now_s,
            tier=checkpoint.tier,
            kind=checkpoint.kind,
            gpu=checkpoint.gpu,
            size_bytes=checkpoint.size_bytes,
        )
        draft.put(replace(one, durable=point, earlier=to_go_back_to(one), went_back=0))
        draft.because(one.id, Why.SAVED, step=point.step, bytes=checkpoint.shipped_bytes)


def completing_save(draft: Draft, job: Job, run: Run) -> Checkpoint | None:
    """What a run that has ended still sends, where all members have that step once it has arrived."""
    others = [one for one in members(draft, job) if one.id != job.id]
    known = _durable_mark(draft, job)
    unsettled = (draft.state.checkpoints[one] for one in draft.state.unsettled.get(run.id, ()))
    awaited = [
        one
        for one in unsettled
        if one.phase is CheckpointPhase.CAPTURED
        and _mark(one) > known
        and all(_has_or_sends(draft, other, _mark(one)) for other in others)
    ]
    return max(awaited, key=_mark, default=None)


def _has_or_sends(draft: Draft, job: Job, wanted: Mark) -> bool:
    run = newest_run(draft, job)
    if run is None or wanted in _saved(draft, job):
        return run is not None
    unsettled = [draft.state.checkpoints[one] for one in draft.state.unsettled.get(run.id, ())]
    if any(one.phase is CheckpointPhase.CAPTURED and _mark(one) == wanted for one in unsettled):
        return True
    # Asked for at the same step, and not there yet.
    return run.phase is RunPhase.LEAVING and any(one.phase is CheckpointPhase.REQUESTED for one in unsettled)


def _say_apart(draft: Draft, every: list[Job]) -> None:
    """Once the last of a round has arrived, and a newer step is saved by each, but not the same."""
    runs = [run for one in every if (run := newest_run(draft, one)) is not None]
    last = [draft.state.checkpoints.get(checkpoint_id(run.id, run.checkpoints)) for run in runs]
    steps = [one.step for one in last if one is not None and one.phase is CheckpointPhase.DURABLE]
    if len(steps) < len(every) or len(set(steps)) == 1:
        return
    shown = ", ".join(map(str, steps))
    for one in every:
        draft.because(one.id, Why.GANG_APART, steps=shown, durable=draft.durable_step(one.id))


def interrupted(draft: Draft, job: Job) -> bool:
    """Whether another member is on its way to somewhere else."""
    others = (one for one in members(draft, job) if one.id != job.id)
    return any(one.phase in (JobPhase.LEAVING, JobPhase.MIGRATING) for one in others)


def _all_reached(draft: Draft, job: Job) -> list[Reached]:
    runs = [run for one in members(draft, job) if (run := newest_run(draft, one)) is not None]
    return [_reached(draft, run) for run in runs if run.living]


def _reached(draft: Draft, run: Run) -> Reached:
    step = draft.known_step(run)
    since_s = 0.0 if run.started_s is None else draft.now_s - run.started_s
    # The word that it has started comes later than its first steps: over a moment they look like thousands.
    pace = (step - run.resumed_step) / max(since_s, BEATS_OF_PACE * draft.timing.heartbeat_s)
    return Reached(step=step, steps_per_s=pace)


def _saved(draft: Draft, job: Job) -> dict[Mark, Checkpoint]:
    """What its newest run has made durable, by what belongs together."""
    run = newest_run(draft, job)
    if run is None:
        return {}
    first = max(1, run.checkpoints - SAVES_LOOKED_AT + 1)
    asked = _durable_ones(
        draft, (checkpoint_id(run.id, number) for number in range(first, run.checkpoints + 1))
    )
    own_names = (own_checkpoint_id(run.id, number) for number in range(1, SAVES_LOOKED_AT + 1))
    # Its machine had it saved when nobody could ask: without a step that belongs to nothing of the others.
    own = (one for one in _durable_ones(draft, own_names) if one.step)
    return {_mark(one): one for one in (*asked, *own)}


def _durable_ones(draft: Draft, names: Iterable[CheckpointId]) -> list[Checkpoint]:
    known = (draft.state.checkpoints.get(name) for name in names)
    return [one for one in known if one is not None and one.phase is CheckpointPhase.DURABLE]


def _mark(checkpoint: Checkpoint) -> Mark:
    return mark(checkpoint.step, checkpoint.requested_s)


def _durable_mark(draft: Draft, job: Job) -> Mark:
    """What nothing is older than where it has saved nothing."""
    return (
        (0, -math.inf) if job.durable is None else _mark(draft.state.checkpoints[job.durable.checkpoint_id])
    )
