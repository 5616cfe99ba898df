"""A common save that is of no use to one member is of no use to any: all go back to the one before.

What a member could not read, or could not go on from, is blamed once. All members then go on from the newest
save that all still have and none has blamed, and each is told which one that is. A job that runs alone goes
back by `checkpoint_fallback`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpunion.domain.ids import CheckpointId
from gpunion.domain.jobs.checkpoint import Checkpoint
from gpunion.domain.jobs.job import DurablePoint, Job
from gpunion.domain.jobs.run import EndReason, Run
from gpunion.domain.protocol.reports import RunEnded
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.runs import gang_members as gangs
from gpunion.engine.coordinator.runs.checkpoint_fallback import SPOILED_KEPT, came_to_nothing
from gpunion.engine.coordinator.runs.retry_limits import Trouble, reached
from gpunion.policy.gangs.agreeing import Round, mark, newest_unblamed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Saves:
    """Of one member: what all have, and what of it is of no use, the newest included."""

    kept: dict[Round, DurablePoint]
    spoiled: tuple[CheckpointId, ...]

    @property
    def blamed(self) -> set[Round]:
        return {one for one, point in self.kept.items() if point.checkpoint_id in self.spoiled}


def blames_its_save(draft: Draft, job: Job) -> bool:
    """A member whose program failed with what all would go on from, before a step and before a save."""
    run = gangs.newest_run(draft, job)
    if run is None or run.end_reason is not EndReason.FAILED or not job.exit_code:
        return False
    return _was_given_the_newest(job, run) and came_to_nothing(draft, job, run)


def before(draft: Draft, members: list[Job]) -> list[Job] | None:
    """All members as they go on from the common save before; None: there is none, or it was tried enough."""
    if any(one.durable is None or reached(Trouble.SAVE_USELESS, one.went_back) for one in members):
        return None
    saves = [_saves(draft, one) for one in members]
    found = newest_unblamed([one.kept for one in saves], [one.blamed for one in saves])
    if found is None:
        return None
    return [_back(job, one, found) for job, one in zip(members, saves, strict=True)]


def all_back(draft: Draft, members: list[Job], blaming: Job, why: Why, detail: str) -> list[Job]:
    """The same, said and done. There has to be one."""
    back = before(draft, members)
    assert back is not None
    assert blaming.durable is not None
    assert blaming.spec.seat is not None
    step, rank = blaming.durable.step, blaming.spec.seat.rank
    for one in back:
        draft.put(one)
        durable = draft.durable_step(one.id)
        draft.because(one.id, why, rank=rank, step=step, detail=detail, size=len(back), durable=durable)
    return back


def before_what_cannot_be_read(draft: Draft, job: Job, run: Run, report: RunEnded) -> bool:
    """Whether a member that did not start for want of its save goes on from an earlier one, as all do."""
    if report.reason is not EndReason.START_FAILED or report.why is not Why.SAVE_UNREADABLE:
        return False
    if run.restored_from in job.spoiled:
        return True  # another member has blamed this round already
    members = [job if one.id == job.id else one for one in gangs.members(draft, job)]
    if not _was_given_the_newest(job, run) or before(draft, members) is None:
        return False
    all_back(draft, members, job, Why.GANG_SAVE_UNREADABLE, report.detail or "no detail given")
    return True


def in_words(draft: Draft, job: Job) -> str:
    """Why a member failed, and after which save, where that may be to blame."""
    if not blames_its_save(draft, job):
        return job.failure
    assert job.durable is not None
    left = "no earlier save of all members is left"
    if reached(Trouble.SAVE_USELESS, job.went_back):
        left = f"all members had gone back {job.went_back} times in a row for that already"
    given = f"{job.durable.checkpoint_id}, which it saved at step {job.durable.step}"
    return f"{job.failure}; it had just been given {given}, and {left}"


def _was_given_the_newest(job: Job, run: Run) -> bool:
    return job.durable is not None and run.restored_from == job.durable.checkpoint_id


def _saves(draft: Draft, job: Job) -> _Saves:
    assert job.durable is not None
    points = (*job.earlier, job.durable)
    kept = {_round(draft.state.checkpoints[one.checkpoint_id]): one for one in points}
    return _Saves(kept=kept, spoiled=(*job.spoiled, job.durable.checkpoint_id)[-SPOILED_KEPT:])


def _round(saved: Checkpoint) -> Round:
    return (saved.epoch, *mark(saved.step, saved.requested_s))


def _back(job: Job, saves: _Saves, to: Round) -> Job:
    older = tuple(point for one, point in saves.kept.items() if one < to)
    return replace(
        job, durable=saves.kept[to], earlier=older, spoiled=saves.spoiled, went_back=job.went_back + 1
    )
