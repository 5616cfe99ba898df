"""A save that nobody can go on from: the one before is taken, and the reason is told."""

from __future__ import annotations

from typing import Any

from gpunion.domain.ids import CheckpointId, JobId, RunId
from gpunion.domain.jobs.job import CheckpointWish, JobPhase
from gpunion.domain.jobs.migration import Cause
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.decision import Decision
from gpunion.domain.protocol.orders import StartRun, TakeCheckpoint
from gpunion.domain.protocol.reports import RunStarted
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.runs.checkpoint_fallback import LOADS_WITHIN_S, SECONDS_TO_LOAD
from gpunion.engine.coordinator.runs.retry_limits import AT_MOST, Trouble
from tests.builders import Headquarters, a_running_job, orders, whys

GOES_BACK_MOST = AT_MOST[Trouble.SAVE_USELESS]


def saved_and_moved(saves: int = 2, **spec: Any) -> Headquarters:
    """Run 2 has just been given what run 1 saved last, of step 10 times `saves`."""
    headquarters = a_running_job(**spec)
    for number in range(1, saves + 1):
        headquarters.fires("checkpoint:job-e1")
        headquarters.durable(f"job-e1-c{number}", step=10 * number)
    headquarters.ended("job-e1", EndReason.KILLED_BY_OWNER, step=10 * saves)
    headquarters.started("job-e2", step=10 * saves, restored=f"job-e1-c{saves}")
    return headquarters


def test_a_program_that_cannot_read_what_it_saved_goes_on_from_the_save_before() -> None:
    headquarters = saved_and_moved()
    decision = headquarters.ended("job-e2", EndReason.FAILED, step=20, exit_code=1)
    assert whys(decision)[0] is Why.SAVE_SPOILED
    assert decision.reasons[0].sentence() == (
        "its program could not go on from what it had saved at step 20 (exit code 1; see its log); "
        "it goes on from the save before, step 10"
    )
    [start] = [order for _, order in orders(decision) if isinstance(order, StartRun)]
    assert (start.restore, start.restore_step, start.spoiled) == ("job-e1-c1", 10, ("job-e1-c2",))
    headquarters.started("job-e3", step=10, restored="job-e1-c1")
    job = headquarters.job()
    assert (job.phase, job.durable and job.durable.step) == (JobPhase.RUNNING, 10)
    assert [m.cause for m in headquarters.state.migrations.values()][-1] is Cause.SPOILED_SAVE
    headquarters.fires("checkpoint:job-e3")
    assert whys(headquarters.durable("job-e3-c1", step=15)) == [Why.SAVED]
    assert headquarters.job().went_back == 0


def test_who_fails_with_every_save_fails_and_is_told_after_what() -> None:
    headquarters = saved_and_moved(saves=5)
    for back in range(GOES_BACK_MOST):
        headquarters.ended(f"job-e{2 + back}", EndReason.FAILED, step=50 - 10 * back, exit_code=1)
        step = 40 - 10 * back
        headquarters.started(f"job-e{3 + back}", step=step, restored=f"job-e1-c{4 - back}")
    decision = headquarters.ended("job-e4", EndReason.FAILED, step=30, exit_code=1)
    assert headquarters.job().phase is JobPhase.FAILED
    assert decision.reasons[0].sentence() == (
        "failed: exit code 1; see its log; it had just been given what it saved at step 30"
    )


def test_saves_that_are_of_no_use_do_not_drive_sound_ones_out_of_the_vault() -> None:
    headquarters = saved_and_moved(saves=4)
    assert kept(headquarters.fires("checkpoint:job-e2")) == [None]  # the newest three will do
    headquarters.ended("job-e2", EndReason.FAILED, step=40, exit_code=1)
    headquarters.started("job-e3", step=30, restored="job-e1-c3")
    assert kept(headquarters.fires("checkpoint:job-e3")) == ["job-e1-c2"]
    headquarters.durable("job-e3-c1", step=40)
    headquarters.ended("job-e3", EndReason.KILLED_BY_OWNER, step=40)
    headquarters.started("job-e4", step=40, restored="job-e3-c1")
    decision = headquarters.ended("job-e4", EndReason.FAILED, step=40, exit_code=1)
    [start] = [order for _, order in orders(decision) if isinstance(order, StartRun)]
    assert (start.restore, start.keep) == ("job-e1-c3", "job-e1-c2")
    assert start.spoiled == ("job-e1-c4", "job-e3-c1")


def test_a_save_of_no_use_is_never_forgotten_while_it_is_newer_than_what_its_job_goes_back_to() -> None:
    headquarters = saved_and_moved(saves=2)
    useless = ["job-e1-c2"]
    for epoch in range(3, 33, 2):
        headquarters.ended(f"job-e{epoch - 1}", EndReason.FAILED, step=20, exit_code=1)
        headquarters.started(f"job-e{epoch}", step=10, restored="job-e1-c1")
        headquarters.fires(f"checkpoint:job-e{epoch}")
        headquarters.durable(f"job-e{epoch}-c1", step=20)
        headquarters.ended(f"job-e{epoch}", EndReason.KILLED_BY_OWNER, step=20)
        headquarters.started(f"job-e{epoch + 1}", step=20, restored=f"job-e{epoch}-c1")
        useless.append(f"job-e{epoch}-c1")
    decision = headquarters.ended("job-e32", EndReason.FAILED, step=20, exit_code=1)
    [start] = [order for _, order in orders(decision) if isinstance(order, StartRun)]
    assert (start.restore, start.keep, start.spoiled) == ("job-e1-c1", "job-e1-c1", tuple(useless))


def kept(decision: Decision) -> list[str | None]:
    return [order.keep for _, order in orders(decision) if isinstance(order, TakeCheckpoint)]


def test_a_save_that_nobody_had_heard_of_takes_a_place_in_the_vault_too() -> None:
    headquarters = saved_and_moved(saves=4)
    headquarters.ended("job-e2", EndReason.KILLED_BY_OWNER, step=45)
    headquarters.started("job-e3", step=45, restored="job-e2-a1")  # the word of it was lost
    headquarters.ended("job-e3", EndReason.FAILED, step=45, exit_code=1)
    job = headquarters.job()
    assert job.durable is not None
    assert [one.checkpoint_id for one in (*job.earlier, job.durable)] == ["job-e1-c3", "job-e1-c4"]


def test_with_no_earlier_save_it_fails_and_does_not_begin_anew() -> None:
    headquarters = saved_and_moved(saves=1)
    headquarters.ended("job-e2", EndReason.FAILED, step=10, exit_code=1)
    assert headquarters.job().phase is JobPhase.FAILED


def test_a_program_that_got_on_with_what_it_had_saved_has_failed() -> None:
    headquarters = saved_and_moved()
    headquarters.ended("job-e2", EndReason.FAILED, step=21, exit_code=1)
    assert headquarters.job().phase is JobPhase.FAILED


def test_a_program_that_tells_no_steps_and_failed_after_an_hour_blames_no_save() -> None:
    headquarters = saved_and_moved()
    headquarters.later(LOADS_WITHIN_S + 1).ended("job-e2", EndReason.FAILED, step=20, exit_code=1)
    assert headquarters.job().phase is JobPhase.FAILED


def test_a_program_saved_from_outside_counts_seconds_while_it_reads() -> None:
    for worked_s, phase in ((SECONDS_TO_LOAD, JobPhase.STARTING), (SECONDS_TO_LOAD + 1, JobPhase.FAILED)):
        headquarters = saved_and_moved(checkpoint=CheckpointWish(command=("./save.sh",)))
        headquarters.ended("job-e2", EndReason.FAILED, step=20 + worked_s, exit_code=1)
        assert headquarters.job().phase is phase


def cannot_read_the_newest(headquarters: Headquarters, epoch: int, found: int) -> Decision:
    """The machine where it begins again is given an older save."""
    report = RunStarted(
        run_id=RunId(f"job-e{epoch}"),
        job_id=JobId("job"),
        epoch=epoch,
        restored=CheckpointId(f"job-e1-c{found}"),
        resumed_step=10 * found,
        restore_s=1.0,
        unreadable=f"job-e1-c{found + 1}: block 00ff is damaged",
    )
    return headquarters.reported(headquarters.run(report.run_id).node_id, report)


def saved_and_killed(saves: int) -> Headquarters:
    headquarters = a_running_job()
    for number in range(1, saves + 1):
        headquarters.fires("checkpoint:job-e1")
        headquarters.durable(f"job-e1-c{number}", step=10 * number)
    headquarters.ended("job-e1", EndReason.KILLED_BY_OWNER, step=10 * saves)
    return headquarters


def test_saves_that_cannot_be_read_do_not_drive_sound_ones_out_of_the_vault_either() -> None:
    headquarters = saved_and_killed(saves=4)
    cannot_read_the_newest(headquarters, 2, found=3)
    job = headquarters.job()
    assert [point.checkpoint_id for point in job.earlier] == ["job-e1-c2"]
    assert kept(headquarters.fires("checkpoint:job-e2")) == ["job-e1-c2"]
    headquarters.durable("job-e2-c1", step=35)
    headquarters.ended("job-e2", EndReason.KILLED_BY_OWNER, step=35)
    headquarters.started("job-e3", step=35, restored="job-e2-c1")
    decision = headquarters.ended("job-e3", EndReason.FAILED, step=35, exit_code=1)
    [start] = [order for _, order in orders(decision) if isinstance(order, StartRun)]
    assert (start.restore, start.keep) == ("job-e1-c3", "job-e1-c2")


def test_saves_that_cannot_be_read_are_told_of_and_count_as_saved_no_more() -> None:
    headquarters = saved_and_killed(saves=2)
    decision = cannot_read_the_newest(headquarters, 2, found=1)
    assert Why.SAVE_UNREADABLE in whys(decision)
    told = next(reason for reason in decision.reasons if reason.why is Why.SAVE_UNREADABLE)
    assert told.sentence() == (
        "newer saves of it could not be read, so it goes on from step 10 (job-e1-c2: block 00ff is damaged)"
    )
    headquarters.fires("checkpoint:job-e2")
    assert whys(headquarters.durable("job-e2-c1", step=12)) == [Why.SAVED]  # and is not behind step 20
