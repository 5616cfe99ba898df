"""A save that is of no use: its blocks cannot be read, or its program cannot go on from what it saved.

What was called durable goes back by one then, knowingly and with the reason told. The next run is told which
saves to leave alone, since it would take the newest that it finds sealed.
"""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import CheckpointId, JobId
from gpunion.domain.jobs.checkpoint import Checkpoint, CheckpointPhase
from gpunion.domain.jobs.job import DurablePoint, Job
from gpunion.domain.jobs.run import Run
from gpunion.domain.protocol.reports import RunEnded, RunStarted
from gpunion.domain.reasons.reason import Why
from gpunion.domain.system_tier import Tier
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.runs.retry_limits import AT_MOST, Trouble, reached
from gpunion.text import by_number

# The newest, where nothing else was said: what it would go on from, and those it may go back to.
VAULTS_KEEP = AT_MOST[Trouble.SAVE_USELESS] + 1
# Steps of a program that is saved from outside are seconds of work, and count while it still reads its files.
SECONDS_TO_LOAD = 30
# No program reads its files for longer, of whatever size. Many tell no steps, and have worked by then.
LOADS_WITHIN_S = 3600.0
# While no sound save is made they all stay in the vault, newer than what their job goes back to: one that is
# forgotten here would be taken first. Each costs an interruption, so there are never many.
SPOILED_KEPT = 64


def before_what_failed(draft: Draft, job: Job, run: Run, report: RunEnded, detail: str) -> Job | None:
    """The job as it goes on from an earlier save; None where its program failed for another reason, or where
    there is no earlier one."""
    if not blames_its_save(draft, job, run, report):
        return None
    assert run.restored_from is not None
    earlier = _without(draft, job, run.restored_from)
    if earlier is not None:
        step, durable = run.resumed_step, _step(earlier)
        draft.because(job.id, Why.SAVE_SPOILED, step=step, detail=detail, durable=durable)
    return earlier


def before_the_dump(draft: Draft, job: Job) -> Job | None:
    """The job as it goes on from an earlier save than a whole guest that came to life nowhere; None: there
    is none to be tried."""
    assert job.dump is not None
    earlier = _without(draft, job, job.dump.checkpoint_id)
    if earlier is None:
        return None
    draft.because(job.id, Why.DUMP_SPOILED, step=job.dump.step, durable=_step(earlier))
    return replace(earlier, dump_failures=0)


def blames_its_save(draft: Draft, job: Job, run: Run, report: RunEnded) -> bool:
    """It failed before it had done a step, or saved anything, since it was given what it had saved."""
    if job.spec.seat is not None or report.exit_code == 0:
        return False
    return came_to_nothing(draft, job, run)


def came_to_nothing(draft: Draft, job: Job, run: Run) -> bool:
    """A run that has ended, given what was saved, with neither a step made nor anything saved since."""
    if run.restored_from is None:
        return False
    given = draft.state.checkpoints.get(run.restored_from)
    if (job.tier if given is None else given.tier) is not Tier.APP:
        return False  # whoever was brought back whole had nothing to read
    wish = job.spec.checkpoint
    slack = SECONDS_TO_LOAD if wish.command or wish.signal else 0
    if run.last_step > run.resumed_step + slack or _lived_s(run) > LOADS_WITHIN_S:
        return False
    return not any(one.run_id == run.id for one in _durable_ones(draft, job.id))


def _lived_s(run: Run) -> float:
    return 0.0 if run.started_s is None or run.ended_s is None else run.ended_s - run.started_s


def to_what_could_be_read(draft: Draft, job: Job, report: RunStarted) -> Job:
    """Newer saves could not be read on the machine where it begins."""
    draft.because(job.id, Why.SAVE_UNREADABLE, trouble=report.unreadable, step=report.resumed_step)
    found = None if report.restored is None else draft.state.checkpoints.get(report.restored)
    ahead = job.durable is not None and job.durable.step > report.resumed_step
    if not ahead or found is None or found.phase is not CheckpointPhase.DURABLE:
        return job
    held = _held(draft, job, found.id)
    names = [point.checkpoint_id for point in held]
    earlier = tuple(held[: names.index(found.id)]) if found.id in names else ()
    return replace(job, durable=_point(found), earlier=earlier, unread=True)


def remembers(job: Job) -> bool:
    """Whether it has to be known what its vault keeps of it: of a gang, what all have; of others once a save
    was of no use, since such saves take the places of sound ones among the newest."""
    return job.spec.seat is not None or bool(job.spoiled) or job.unread


def kept_from(job: Job) -> CheckpointId | None:
    """From this one on its saves stay in the vault: it might go back so far. None: the newest will do."""
    if job.durable is None or not remembers(job):
        return None
    return (*job.earlier, job.durable)[0].checkpoint_id


def to_go_back_to(job: Job) -> tuple[DurablePoint, ...]:
    """Once a newer save takes the place of the one it would go on from."""
    if job.durable is None or not remembers(job):
        return ()
    return (*job.earlier, job.durable)[-AT_MOST[Trouble.SAVE_USELESS] :]


def _without(draft: Draft, job: Job, useless: CheckpointId) -> Job | None:
    """The job as it goes on from its newest save but those that are of no use."""
    if reached(Trouble.SAVE_USELESS, job.went_back):
        return None
    spoiled = (*job.spoiled, useless)[-SPOILED_KEPT:]
    usable = (Tier.APP,) if job.tier is Tier.APP else (Tier.APP, Tier.SYSTEM)
    held = _held(draft, job, useless)
    sound = [one for one in held if one.checkpoint_id not in spoiled and one.tier in usable]
    if not sound:
        return None
    back = job.went_back + 1
    return replace(job, durable=sound[-1], earlier=tuple(sound[:-1]), spoiled=spoiled, went_back=back)


def _held(draft: Draft, job: Job, useless: CheckpointId) -> list[DurablePoint]:
    """What its vault still has of it, the newest last."""
    if job.durable is not None and remembers(job):
        return [*job.earlier, job.durable]
    known = sorted(_durable_ones(draft, job.id), key=lambda one: (one.epoch, one.step, by_number(one.id)))
    # Where the word of it was lost, it was sealed after all that are known.
    unheard_of = all(one.id != useless for one in known)
    return [_point(one) for one in known[-(VAULTS_KEEP - unheard_of) :]]


def _step(job: Job) -> int:
    return 0 if job.durable is None else job.durable.step


def _durable_ones(draft: Draft, job_id: JobId) -> list[Checkpoint]:
    known = draft.state.checkpoints.values()
    return [one for one in known if one.job_id == job_id and one.phase is CheckpointPhase.DURABLE]


def _point(saved: Checkpoint) -> DurablePoint:
    return DurablePoint(
        checkpoint_id=saved.id,
        step=saved.step,
        progress=saved.progress,
        at_s=saved.requested_s if saved.durable_s is None else saved.durable_s,
        tier=saved.tier,
        kind=saved.kind,
        gpu=saved.gpu,
        size_bytes=saved.size_bytes,
    )
