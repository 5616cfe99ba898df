"""A run ends: finished, failed, interrupted by somebody, or to be run again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.ids import CheckpointId, JobId, RunId
from gpunion.domain.jobs.checkpoint import Counted
from gpunion.domain.jobs.job import CheckpointWish, JobPhase
from gpunion.domain.jobs.migration import Cause, MigrationPhase
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.events import TimerFired
from gpunion.domain.protocol.reports import Capture, DepartureForetold, OutputArrived, RunEnded
from gpunion.domain.protocol.timers import coordinator_timer
from gpunion.domain.reasons.reason import Why
from gpunion.domain.system_tier import Tier
from gpunion.engine.coordinator.runs.retry_limits import AT_MOST, QUICK_S, Trouble
from gpunion.policy.policies import LIVE
from tests.builders import Headquarters, a_running_job, a_spec, orders, timers_of, whys

CIRCLES_MOST = AT_MOST[Trouble.CIRCLES]
VANISHED_MOST = AT_MOST[Trouble.VANISHED]


def test_a_finished_run_ends_its_job_and_frees_its_place() -> None:
    headquarters = a_running_job()
    headquarters.submits("next")
    decision = headquarters.ended(
        "job-e1", EndReason.FINISHED, step=99, exit_code=0, output=CheckpointId("job-e1-output")
    )
    job = headquarters.job()
    assert (job.phase, job.exit_code, job.output) == (JobPhase.SUCCEEDED, 0, "job-e1-output")
    assert job.ended_s == headquarters.now_s
    assert decision.reasons[0].sentence() == "finished on alpha after 0 moves"
    assert headquarters.job("next").phase is JobPhase.STARTING
    assert headquarters.run().last_step == 99


def test_a_run_may_finish_before_its_start_is_heard_of() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    headquarters.ended("job-e1", EndReason.FINISHED, exit_code=0)
    assert headquarters.job().phase is JobPhase.SUCCEEDED


def test_a_program_that_fails_fails_its_job_and_is_not_run_again() -> None:
    headquarters = a_running_job()
    decision = headquarters.ended("job-e1", EndReason.FAILED, exit_code=3)
    assert (headquarters.job().phase, headquarters.job().exit_code) == (JobPhase.FAILED, 3)
    assert decision.reasons[0].sentence() == "failed: exit code 3; see its log"


def test_a_program_that_a_signal_ended_is_told_which() -> None:
    decision = a_running_job().ended("job-e1", EndReason.FAILED, exit_code=137)
    assert decision.reasons[0].sentence() == "failed: exit code 137, ended by SIGKILL; see its log"


def test_a_program_that_was_never_there_is_told_so() -> None:
    decision = a_running_job().ended("job-e1", EndReason.FAILED, exit_code=127)
    told = "failed: exit code 127, as when there is no such program; see its log"
    assert decision.reasons[0].sentence() == told


def test_a_program_that_does_not_handle_the_signal_it_is_saved_by_is_told_so() -> None:
    headquarters = a_running_job(checkpoint=CheckpointWish(signal="SIGUSR2"))
    decision = headquarters.ended("job-e1", EndReason.FAILED, exit_code=140)
    assert (
        "SIGUSR2, which asks it to save itself and which it does not handle" in decision.reasons[0].sentence()
    )


def test_an_end_is_heard_once() -> None:
    headquarters = a_running_job()
    headquarters.ended("job-e1", EndReason.FINISHED)
    decision = headquarters.ended("job-e1", EndReason.FINISHED)
    assert decision.changes == ()
    assert decision.reasons[0].sentence() == "the job is already over (succeeded)"


def test_the_end_of_a_run_nobody_knows_changes_nothing() -> None:
    headquarters = a_running_job()
    report = RunEnded(
        run_id=RunId("ghost-e1"), job_id=JobId("ghost"), epoch=1, reason=EndReason.FINISHED, last_step=0
    )
    decision = headquarters.reported("alpha", report)
    assert (decision.changes, whys(decision)) == ((), [])


def test_a_machine_that_could_not_keep_an_output_is_not_tried_again_at_once() -> None:
    headquarters = a_running_job()
    headquarters.ended("job-e1", EndReason.OUTPUT_LOST, detail="its output could not be saved: away")
    assert [one.node_id for one in headquarters.job().avoid] == ["alpha"]


def test_an_output_that_its_machine_keeps_is_not_made_again_and_its_user_is_told_where_it_is() -> None:
    headquarters = a_running_job()
    decision = headquarters.ended(
        "job-e1", EndReason.OUTPUT_LOST, exit_code=0, detail="the vault is full", kept="2026-01-08 00:00 UTC"
    )
    assert headquarters.job().phase is JobPhase.FAILED
    assert orders(decision) == []
    told = decision.reasons[0].sentence()
    assert "It stays on alpha until 2026-01-08 00:00 UTC and is sent from there once there is room" in told
    assert "gpunion cp job: DIR" in told
    arrived = OutputArrived(
        run_id=RunId("job-e1"), job_id=JobId("job"), epoch=1, output=CheckpointId("job-e1-output")
    )
    decision = headquarters.reported("alpha", arrived)
    assert (headquarters.job().phase, headquarters.job().output) == (JobPhase.FAILED, "job-e1-output")
    assert decision.reasons[0].sentence() == (
        "what it made was kept on alpha and has come from there; fetch it: gpunion cp job: DIR"
    )
    assert headquarters.reported("alpha", arrived).empty  # told twice


def test_an_output_of_a_job_that_goes_on_is_nobody_s() -> None:
    headquarters = a_running_job()
    arrived = OutputArrived(
        run_id=RunId("job-e1"), job_id=JobId("job"), epoch=1, output=CheckpointId("job-e1-output")
    )
    assert headquarters.reported("alpha", arrived).changes == ()


def test_a_job_whose_output_cannot_be_kept_is_run_again_once_and_then_fails_with_what_to_do() -> None:
    headquarters = a_running_job()
    headquarters.joins("beta")
    headquarters.fires("checkpoint:job-e1")
    headquarters.durable("job-e1-c1", step=10)
    headquarters.ended("job-e1", EndReason.OUTPUT_LOST, step=99, detail="the vault is full")
    headquarters.started("job-e2", step=10, restored="job-e1-c1")
    headquarters.ended("job-e2", EndReason.KILLED_BY_OWNER, step=50)  # nobody's count
    headquarters.started("job-e3", step=10, restored="job-e1-c1")
    decision = headquarters.ended("job-e3", EndReason.OUTPUT_LOST, step=99, detail="the vault is full")
    assert headquarters.job().phase is JobPhase.FAILED
    assert decision.reasons[0].sentence() == (
        "failed: its program has finished 2 times, and what it made could not be kept (the last time: the "
        "vault is full); its machine has removed it with the run. Next: see that its place is there and has "
        "room (gpunion places), then submit it again, or fetch what it had made by step 10, which was saved "
        "then: gpunion cp job: DIR"
    )


def vanishes(headquarters: Headquarters, epoch: int, step: int = 0) -> None:
    """Alone; or with its machine, which comes back at once."""
    if epoch % 2:
        headquarters.ended(f"job-e{epoch}", EndReason.GUEST_LOST, step=step)
    else:
        headquarters.engine.note_progress(RunId(f"job-e{epoch}"), step, 0.0)
        headquarters.hears(TimerFired(timer=coordinator_timer(f"give_up:job-e{epoch}")))
    if headquarters.job().phase is JobPhase.MIGRATING:  # machines are avoided for a while
        headquarters.later(headquarters.engine.timing.avoid_s + 1).fires("replan")
    if headquarters.job().phase is JobPhase.STARTING:
        headquarters.later(60).started(f"job-e{epoch + 1}")


def test_a_program_that_vanishes_wherever_it_is_put_is_not_tried_for_ever() -> None:
    headquarters = a_running_job()
    for epoch in range(1, VANISHED_MOST):
        vanishes(headquarters, epoch)
    assert headquarters.job().phase is JobPhase.RUNNING
    vanishes(headquarters, VANISHED_MOST)
    assert headquarters.job().phase is JobPhase.FAILED
    sentences = [reason.sentence() for _, reason in headquarters.told if reason.why is Why.FAILED]
    assert "its guest or its machine was lost without a word 10 times in a row" in sentences[0]


def test_machines_that_die_cost_no_job_that_has_made_a_step_or_saved_in_between() -> None:
    headquarters = a_running_job()
    for epoch in range(1, VANISHED_MOST):
        vanishes(headquarters, epoch)
    vanishes(headquarters, VANISHED_MOST, step=1)
    assert headquarters.job().vanished == 0
    for epoch in range(VANISHED_MOST + 1, 2 * VANISHED_MOST):
        vanishes(headquarters, epoch)
    headquarters.fires(f"checkpoint:job-e{2 * VANISHED_MOST}")
    headquarters.durable(f"job-e{2 * VANISHED_MOST}-c1", step=0)
    vanishes(headquarters, 2 * VANISHED_MOST)
    assert (headquarters.job().phase, headquarters.job().vanished) == (JobPhase.RUNNING, 0)


def test_a_finished_job_is_told_what_was_left_out_of_its_output() -> None:
    decision = a_running_job().ended("job-e1", EndReason.FINISHED, detail="left out of its output: l")
    told = [reason.sentence() for reason in decision.reasons]
    assert told == ["finished on alpha after 0 moves", "left out of its output: l"]


@pytest.mark.parametrize(
    ("reason", "why", "cause"),
    [
        (EndReason.LEASE_ENDED, Why.LEASE_LOST, Cause.LEASE_ENDED),
        (EndReason.KILLED_BY_OWNER, Why.OWNER_KILLED, Cause.OWNER_KILL),
        (EndReason.OUTPUT_LOST, Why.OUTPUT_NOT_KEPT, Cause.OUTPUT_LOST),
        (EndReason.GUEST_LOST, Why.GUEST_VANISHED, Cause.GUEST_LOST),
        (EndReason.UNKNOWN, Why.GUEST_VANISHED, Cause.GUEST_LOST),
        (EndReason.STOPPED, Why.GUEST_VANISHED, Cause.GUEST_LOST),
        (EndReason.SAVED, Why.ENDED_ITSELF, Cause.SELF_SAVED),
        (EndReason.DEADLINE, Why.OWNER_WANTS_NODE, Cause.OWNER_RECLAIM),
    ],
)
def test_an_interruption_nobody_planned_is_explained_and_gone_on_from(
    reason: EndReason, why: Why, cause: Cause
) -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    decision = headquarters.ended("job-e1", reason)
    assert whys(decision) == [why, Why.PLACED]
    [migration] = headquarters.state.migrations.values()
    assert (migration.cause, migration.phase) == (cause, MigrationPhase.RESTARTING)
    headquarters.started("job-e2")
    assert "after 1 move" in headquarters.ended("job-e2", EndReason.FINISHED).reasons[0].sentence()


def test_a_program_that_asks_to_be_run_again_waits_for_its_save_to_arrive() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    headquarters.fires("checkpoint:job-e1")
    headquarters.captured("job-e1-c1", step=40)
    decision = headquarters.ended("job-e1", EndReason.SAVED, step=40)
    assert headquarters.job().epoch == 1
    assert "flush:job-m1" in timers_of(decision)
    headquarters.durable("job-e1-c1", step=40, final=True)
    assert headquarters.job().epoch == 2


def test_a_program_that_only_says_run_me_again_is_not_run_for_ever() -> None:
    headquarters = a_running_job()
    for epoch in range(1, CIRCLES_MOST):
        headquarters.later(1).ended(f"job-e{epoch}", EndReason.SAVED)
        headquarters.later(1).started(f"job-e{epoch + 1}")
    decision = headquarters.ended(f"job-e{CIRCLES_MOST}", EndReason.SAVED, exit_code=85)
    assert headquarters.job().phase is JobPhase.FAILED
    assert "ended with status 85 (saved, run me again) 10 times in a row" in decision.reasons[0].sentence()


@pytest.mark.parametrize("known_end", [False, True])
def test_nor_is_one_whose_machine_says_that_it_ended_for_its_window(known_end: bool) -> None:
    headquarters = Headquarters(policies=LIVE)
    headquarters.joins("alpha")
    if known_end:
        at_s = headquarters.now_s + 8 * 3600.0
        headquarters.reported("alpha", DepartureForetold(at_s=at_s, because="calendar"))
    headquarters.submits("job", replace(a_spec(), atomizable=True))
    for epoch in range(1, CIRCLES_MOST + 1):
        headquarters.later(1).started(f"job-e{epoch}")
        assert headquarters.job().phase is JobPhase.RUNNING
        headquarters.later(1).ended(
            f"job-e{epoch}", EndReason.SAVED, exit_code=85, saved_for=EndReason.WINDOW
        )
    assert headquarters.job().phase is JobPhase.FAILED


def test_one_that_ends_when_its_window_nearly_does_is_run_again_as_often_as_it_has_windows() -> None:
    headquarters = Headquarters(policies=LIVE)
    headquarters.joins("alpha")
    headquarters.submits("job", replace(a_spec(), atomizable=True))
    for epoch in range(1, 2 * CIRCLES_MOST):
        ends_s = headquarters.now_s + 15.0
        headquarters.reported("alpha", DepartureForetold(at_s=ends_s, because="calendar"))
        headquarters.later(1).started(f"job-e{epoch}")
        headquarters.later(5).ended(f"job-e{epoch}", EndReason.SAVED, saved_for=EndReason.WINDOW)
        headquarters.reported("alpha", DepartureForetold(at_s=None, because=""))
    assert not headquarters.job().phase.over


def test_who_worked_in_between_has_not_said_it_in_a_row() -> None:
    headquarters = a_running_job(nodes=("alpha", "beta"))
    for epoch in range(1, CIRCLES_MOST):
        headquarters.later(1).ended(f"job-e{epoch}", EndReason.SAVED)
        headquarters.later(1).started(f"job-e{epoch + 1}")
    headquarters.later(3600).ended(f"job-e{CIRCLES_MOST}", EndReason.KILLED_BY_OWNER)
    headquarters.later(1).started(f"job-e{CIRCLES_MOST + 1}")
    headquarters.later(1).ended(f"job-e{CIRCLES_MOST + 1}", EndReason.SAVED)
    assert (headquarters.job().phase.over, headquarters.job().circles) == (False, 1)


@pytest.mark.parametrize(("worked_s", "steps"), [(QUICK_S, 0), (1.0, 1)])
def test_a_program_that_works_in_pieces_is_run_again_as_often_as_it_asks(worked_s: float, steps: int) -> None:
    headquarters, step = a_running_job(), 0
    for epoch in range(1, 3 * CIRCLES_MOST):
        step += steps
        headquarters.later(worked_s).ended(f"job-e{epoch}", EndReason.SAVED, step=step)
        headquarters.started(f"job-e{epoch + 1}", step=step)
    assert headquarters.job().phase is JobPhase.RUNNING


def test_what_goes_on_from_a_save_that_only_the_vault_knew_of_does_not_begin_anew() -> None:
    headquarters = a_running_job()
    headquarters.later(20).ended("job-e1", EndReason.SAVED)
    told = headquarters.later(2).started("job-e2", step=67, restored="job-e1-c9").reasons
    assert Why.RUNS_AGAIN_ANEW not in [reason.why for reason in told]
    assert Why.RUNS_AGAIN in [reason.why for reason in told]


def a_capture(*, counted: Counted) -> Capture:
    return Capture(stall_s=1.0, capture_s=1.0, tier=Tier.APP, sent_for_s=1.0, counted=counted)


@pytest.mark.parametrize(
    ("counted", "again"),
    [
        (Counted.SECONDS, "about 4 min 10 s of its work to redo"),
        (Counted.UNKNOWN, "how much of its work is done again is not known"),
        (None, "how much of its work is done again is not known"),
    ],
)
def test_of_a_program_that_is_saved_from_outside_no_steps_are_told(
    counted: Counted | None, again: str
) -> None:
    headquarters = a_running_job(checkpoint=CheckpointWish(command=("cp", "a", "b")))
    headquarters.fires("checkpoint:job-e1")
    headquarters.durable("job-e1-c1", step=30, capture=a_capture(counted=counted) if counted else None)
    headquarters.later(20).ended("job-e1", EndReason.LEASE_ENDED, step=280)
    told = headquarters.later(2).started("job-e2", step=30, restored="job-e1-c1").reasons
    (moved,) = [reason.sentence() for reason in told if reason.why is Why.RUNS_AGAIN_UNCOUNTED]
    assert again in moved


def test_of_one_that_is_saved_from_outside_and_tells_its_steps_they_are_told() -> None:
    headquarters = a_running_job(checkpoint=CheckpointWish(command=("cp", "-p", "a", "b")))
    headquarters.fires("checkpoint:job-e1")
    headquarters.durable("job-e1-c1", step=1000, capture=a_capture(counted=Counted.STEPS))
    headquarters.later(20).ended("job-e1", EndReason.LEASE_ENDED, step=1130)
    told = headquarters.later(2).started("job-e2", step=1000, restored="job-e1-c1").reasons
    (again,) = [reason.sentence() for reason in told if reason.why is Why.RUNS_AGAIN]
    assert "130 steps to redo" in again


def test_who_runs_again_where_it_was_has_not_moved() -> None:
    headquarters = a_running_job()
    headquarters.later(20).ended("job-e1", EndReason.SAVED)
    told = headquarters.later(2).started("job-e2", step=0).reasons
    assert [reason.sentence() for reason in told if reason.why is Why.RUNS_AGAIN_ANEW] == [
        "runs again on alpha, where it was; stood still for 2 s and begins anew: nothing of it was saved "
        "(how a program is saved: docs/checkpoints.md)"
    ]
    finished = headquarters.later(20).ended("job-e2", EndReason.FINISHED)
    assert "finished on alpha after 0 moves" in [reason.sentence() for reason in finished.reasons]
