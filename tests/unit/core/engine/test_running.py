"""A run starts, is saved from time to time, and ends one way or another."""

from __future__ import annotations

import pytest

from gpunion.domain.checkpoint import CheckpointPhase, CheckpointTrouble
from gpunion.domain.effects import SendOrder, SetTimer
from gpunion.domain.events import NodeReported, TimerFired
from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.job import CheckpointWish, DurablePoint, JobPhase, SaveCost
from gpunion.domain.migration import Cause, MigrationPhase
from gpunion.domain.node import DiskRoom
from gpunion.domain.reasons import Why
from gpunion.domain.reports import Capture, CheckpointDurable, RunEnded, RunStarted
from gpunion.domain.resources import MIB
from gpunion.domain.run import EndReason, RunPhase
from gpunion.domain.system_tier import Tier
from gpunion.engine.circles import CIRCLES_MOST, QUICK_S
from gpunion.engine.handlers.runs import START_ATTEMPTS
from gpunion.policy.bandwidth import periodic_rate_bps
from gpunion.policy.checkpointing import Young
from tests.builders import (
    GIGABIT_BPS,
    TIMING,
    Headquarters,
    a_running_job,
    a_save_order,
    a_spec,
    facts,
    orders,
    timers_of,
    whys,
)


def test_a_started_run_makes_its_job_run_and_sets_the_first_checkpoint() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    decision = headquarters.later(3).started()
    assert (headquarters.job().phase, headquarters.run().phase) == (JobPhase.RUNNING, RunPhase.RUNNING)
    assert headquarters.job().home == "alpha"
    assert headquarters.job().cost.restart_s == (SaveCost().restart_s + 3) / 2
    interval_s = Young().interval_s(headquarters.job(), headquarters.node(), headquarters.now_s)
    assert timers_of(decision) == {
        "start:job-e1": None,
        "checkpoint:job-e1": headquarters.now_s + interval_s,
    }
    assert decision.reasons[0].sentence() == "started on alpha from the beginning"


def test_a_start_reported_twice_starts_once() -> None:
    headquarters = a_running_job()
    assert headquarters.started().empty


def test_the_start_of_a_run_nobody_ordered_is_stopped() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    report = RunStarted(
        run_id=RunId("ghost-e1"),
        job_id=JobId("ghost"),
        epoch=1,
        restored=None,
        resumed_step=0,
        restore_s=0.0,
    )
    decision = headquarters.hears(NodeReported(node_id=NodeId("alpha"), report=report))
    assert whys(decision) == [Why.STALE_EPOCH]
    assert [type(order).__name__ for _, order in orders(decision)] == ["StopRun"]


def test_a_checkpoint_that_is_due_is_asked_for_at_the_node_s_share_of_its_uplink() -> None:
    headquarters = a_running_job()
    decision = headquarters.fires("checkpoint:job-e1")
    assert decision.effects == (
        SendOrder(
            node_id=NodeId("alpha"),
            order=a_save_order("job-e1", 1, rate_bps=periodic_rate_bps(GIGABIT_BPS, 1)),
        ),
    )
    assert headquarters.run().checkpoints == 1


def test_a_durable_checkpoint_moves_the_durable_step_and_sets_the_next_one() -> None:
    headquarters = a_running_job(checkpoint=CheckpointWish(max_interval_s=60))
    headquarters.fires("checkpoint:job-e1")
    headquarters.later(2).captured("job-e1-c1", step=30, stall_s=3.0)
    assert headquarters.job().cost.stall_s == 3.0  # the first that was measured: before it there was a guess
    decision = headquarters.later(2).durable("job-e1-c1", step=30, shipped_bytes=2 * MIB)
    assert headquarters.job().durable == DurablePoint(
        checkpoint_id=CheckpointId("job-e1-c1"),
        step=30,
        progress=0.03,
        at_s=headquarters.now_s,
        size_bytes=2 * MIB,
    )
    assert headquarters.job().cost.ship_bytes == 2 * MIB
    assert decision.effects == (SetTimer(key="checkpoint:job-e1", at_s=headquarters.now_s + 60),)
    assert decision.reasons[0].sentence() == f"step 30 is durable ({2 * MIB} bytes shipped)"
    assert headquarters.state.checkpoints[CheckpointId("job-e1-c1")].phase is CheckpointPhase.DURABLE
    assert headquarters.state.unsettled == {}
    headquarters.fires("checkpoint:job-e1")
    headquarters.durable("job-e1-c2", step=40, shipped_bytes=4 * MIB)
    assert headquarters.job().cost.ship_bytes == 3 * MIB


def test_a_save_that_arrived_soon_is_told_of_once_with_what_it_cost() -> None:
    headquarters = a_running_job()
    headquarters.fires("checkpoint:job-e1")
    asked_s = headquarters.now_s
    capture = Capture(stall_s=3.0, capture_s=4.0, tier=Tier.SYSTEM, sent_for_s=6.0)
    headquarters.later(10).durable("job-e1-c1", step=30, capture=capture)
    saved = headquarters.state.checkpoints[CheckpointId("job-e1-c1")]
    assert (saved.phase, saved.captured_s, saved.durable_s) == (
        CheckpointPhase.DURABLE,
        asked_s + 4.0,
        asked_s + 10.0,
    )
    job = headquarters.job()
    assert (job.cost.stall_s, job.cost.capture_s) == (3.0, 4.0)
    assert job.durable is not None
    assert job.durable.tier is Tier.SYSTEM
    headquarters.fires("checkpoint:job-e1")
    mistaken = Capture(stall_s=5.0, capture_s=5.0, tier=Tier.APP, sent_for_s=1e9)
    headquarters.durable("job-e1-c2", step=40, capture=mistaken)
    again = headquarters.state.checkpoints[CheckpointId("job-e1-c2")]
    assert again.captured_s == again.requested_s  # whatever an agent's clock says
    assert headquarters.job().cost.stall_s == 4.0


def test_a_checkpoint_that_fails_is_told_and_the_next_one_set() -> None:
    headquarters = a_running_job()
    headquarters.fires("checkpoint:job-e1")
    decision = headquarters.not_saved("job-e1-c1", CheckpointTrouble.VAULT_FULL)
    assert (
        decision.reasons[0].sentence()
        == "its save job-e1-c1 did not become durable: there is no room where its saves are kept"
    )
    assert list(timers_of(decision)) == ["checkpoint:job-e1"]


def test_the_durable_step_never_goes_back() -> None:
    headquarters = a_running_job()
    headquarters.fires("checkpoint:job-e1")
    headquarters.durable("job-e1-c1", step=30)
    headquarters.fires("checkpoint:job-e1")
    decision = headquarters.durable("job-e1-c2", step=20)
    durable = headquarters.job().durable
    assert durable is not None
    assert (durable.checkpoint_id, durable.step) == ("job-e1-c1", 30)
    assert decision.reasons[0].sentence() == (
        "a checkpoint of step 20 was ignored; step 30 is already durable"
    )


def test_a_save_that_went_into_another_place_says_why() -> None:
    headquarters = a_running_job()
    headquarters.fires("checkpoint:job-e1")
    decision = headquarters.durable("job-e1-c1", step=30, elsewhere="attic: no room")
    assert [reason.sentence() for reason in decision.reasons] == [
        "step 30 is durable (1048576 bytes shipped)",
        "it was saved in another of its places, since attic: no room",
    ]


def test_a_save_that_no_place_took_says_what_each_of_them_said() -> None:
    headquarters = a_running_job()
    headquarters.fires("checkpoint:job-e1")
    decision = headquarters.not_saved("job-e1-c1", CheckpointTrouble.VAULT_FULL, "attic: no room")
    assert decision.reasons[0].sentence() == (
        "its save job-e1-c1 did not become durable: "
        "there is no room where its saves are kept (attic: no room)"
    )


def test_word_of_a_checkpoint_that_is_settled_changes_nothing() -> None:
    headquarters = a_running_job()
    headquarters.fires("checkpoint:job-e1")
    headquarters.durable("job-e1-c1", step=30)
    assert headquarters.captured("job-e1-c1", step=30).empty
    assert headquarters.durable("job-e1-c1", step=31).empty
    assert headquarters.not_saved("job-e1-c1").empty


def test_word_of_a_checkpoint_of_an_unknown_job_changes_nothing() -> None:
    headquarters = a_running_job()
    report = CheckpointDurable(
        run_id=RunId("ghost-e1"),
        job_id=JobId("ghost"),
        epoch=1,
        checkpoint_id=CheckpointId("ghost-e1-c1"),
        step=1,
        progress=0.0,
        size_bytes=1,
        shipped_bytes=1,
        final=False,
    )
    decision = headquarters.reported("alpha", report)
    assert (
        decision.reasons[0].sentence() == "late news of run 1 of it changed nothing: by then it was at run 0"
    )


def test_word_of_a_checkpoint_of_a_job_that_is_over_changes_nothing() -> None:
    headquarters = a_running_job()
    headquarters.fires("checkpoint:job-e1")
    headquarters.ended("job-e1", EndReason.FINISHED, exit_code=0)
    assert headquarters.durable("job-e1-c1", step=1).changes == ()


def test_a_checkpoint_the_agent_took_by_itself_is_taken_into_the_books() -> None:
    headquarters = a_running_job()
    headquarters.captured("job-e1-a1", step=12)
    headquarters.durable("job-e1-a1", step=12, final=True)
    checkpoint = headquarters.state.checkpoints[CheckpointId("job-e1-a1")]
    assert (checkpoint.final, checkpoint.phase) == (True, CheckpointPhase.DURABLE)


def test_a_checkpoint_timer_of_a_run_that_is_over_says_nothing() -> None:
    headquarters = a_running_job()
    headquarters.ended("job-e1", EndReason.FINISHED)
    assert headquarters.hears(TimerFired(key="checkpoint:job-e1")).empty
    assert headquarters.hears(TimerFired(key="checkpoint:ghost-e1")).empty


def test_a_finished_run_ends_its_job_and_frees_its_place() -> None:
    headquarters = a_running_job()
    headquarters.submits("next")
    decision = headquarters.ended(
        "job-e1", EndReason.FINISHED, step=99, exit_code=0, output=CheckpointId("out")
    )
    job = headquarters.job()
    assert (job.phase, job.exit_code, job.output) == (JobPhase.SUCCEEDED, 0, "out")
    assert job.ended_s == headquarters.now_s
    assert decision.reasons[0].sentence() == "finished on alpha after 0 move(s)"
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
    assert (decision.changes, whys(decision)) == ((), [Why.STALE_EPOCH])


def test_a_refused_run_is_tried_elsewhere_and_the_reason_kept() -> None:
    headquarters = Headquarters()
    for node in ("alpha", "beta"):
        headquarters.joins(node)
    headquarters.submits()
    first = headquarters.run().node_id
    decision = headquarters.ended("job-e1", EndReason.REFUSED, why=Why.OWNER_SAID_NO)
    assert whys(decision) == [Why.RUN_REFUSED, Why.PLACED]
    assert headquarters.run("job-e2").node_id != first
    assert headquarters.job().start_failures == 0


def test_a_refusal_without_a_reason_is_told_as_such() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    decision = headquarters.ended("job-e1", EndReason.REFUSED)
    assert "no reason given" in decision.reasons[0].sentence()


def test_refusals_wear_off_one_by_one() -> None:
    headquarters = Headquarters()
    for node in ("alpha", "beta"):
        headquarters.joins(node)
    headquarters.submits()
    headquarters.ended("job-e1", EndReason.REFUSED)
    headquarters.later(20).ended("job-e2", EndReason.REFUSED)
    assert len(headquarters.job().avoid) == 2
    headquarters.later(TIMING.avoid_s - 15).hears(TimerFired(key="replan"))
    headquarters.ended("job-e3", EndReason.REFUSED)
    assert len(headquarters.job().avoid) == 2


def test_a_run_that_cannot_be_started_three_times_in_a_row_fails_its_job() -> None:
    headquarters = Headquarters()
    for index in range(START_ATTEMPTS):
        headquarters.joins(f"node{index}")
    headquarters.submits()
    for epoch in range(1, START_ATTEMPTS):
        decision = headquarters.ended(f"job-e{epoch}", EndReason.START_FAILED, detail="no such file")
        assert (
            f"on {headquarters.run(f'job-e{epoch}').node_id}: no such file" in decision.reasons[0].sentence()
        )
        assert headquarters.job().phase is JobPhase.STARTING
    decision = headquarters.ended(f"job-e{START_ATTEMPTS}", EndReason.START_FAILED, detail="no such file")
    assert headquarters.job().phase is JobPhase.FAILED
    assert decision.reasons[0].sentence() == "failed: could not be started on 3 nodes: no such file"
    assert headquarters.state.moving == set()


def test_a_machine_that_could_not_keep_an_output_is_not_tried_again_at_once() -> None:
    headquarters = a_running_job()
    headquarters.ended("job-e1", EndReason.OUTPUT_LOST, detail="its output could not be saved: away")
    assert [one.node_id for one in headquarters.job().avoid] == ["alpha"]


def test_a_finished_job_is_told_what_was_left_out_of_its_output() -> None:
    decision = a_running_job().ended("job-e1", EndReason.FINISHED, detail="left out of its output: l")
    told = [reason.sentence() for reason in decision.reasons]
    assert told == ["finished on alpha after 0 move(s)", "left out of its output: l"]


def test_a_start_that_works_forgives_the_failed_ones() -> None:
    headquarters = Headquarters()
    for node in ("alpha", "beta"):
        headquarters.joins(node)
    headquarters.submits()
    headquarters.ended("job-e1", EndReason.START_FAILED)
    assert headquarters.job().start_failures == 1
    headquarters.started("job-e2")
    assert headquarters.job().start_failures == 0


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
    assert "after 1 move(s)" in headquarters.ended("job-e2", EndReason.FINISHED).reasons[0].sentence()


def test_a_program_that_asks_to_be_run_again_waits_for_its_save_to_arrive() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    headquarters.fires("checkpoint:job-e1")
    headquarters.captured("job-e1-c1", step=40)
    decision = headquarters.ended("job-e1", EndReason.SAVED, step=40)
    assert headquarters.job().epoch == 1
    assert "flush:job-m1" in timers_of(decision)
    headquarters.durable("job-e1-c1", step=40, final=True)
    assert headquarters.job().epoch == 2


def test_a_start_that_fails_in_the_middle_of_a_move_goes_on_looking() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta", "gamma"])
    headquarters.ended("job-e1", EndReason.KILLED_BY_OWNER)
    headquarters.ended("job-e2", EndReason.START_FAILED)
    assert len(headquarters.state.migrations) == 1
    assert headquarters.run("job-e3").phase is RunPhase.ORDERED


def test_a_run_that_resumes_says_at_which_step() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    headquarters.fires("checkpoint:job-e1")
    headquarters.durable("job-e1-c1", step=40)
    headquarters.ended("job-e1", EndReason.GUEST_LOST)
    decision = headquarters.started("job-e2", step=40, restored="job-e1-c1")
    node = headquarters.run("job-e2").node_id
    assert decision.reasons[0].sentence() == f"resumed on {node} at step 40"


def test_a_timer_nobody_knows_is_a_bug() -> None:
    with pytest.raises(ValueError, match="no timer is called 'tea'"):
        Headquarters().engine.handle(0.0, TimerFired(key="tea"))


def test_a_bug_while_thinking_leaves_no_trace() -> None:
    headquarters = a_running_job()
    before = headquarters.state.records()
    with pytest.raises(ValueError):
        headquarters.engine.handle(0.0, TimerFired(key="tea:job-e1"))
    assert headquarters.state.records() == before


def test_a_job_s_wish_bounds_how_often_it_is_saved() -> None:
    headquarters = a_running_job(checkpoint=CheckpointWish(max_interval_s=20))
    assert headquarters.timers.at("checkpoint:job-e1") == headquarters.now_s + 20
    assert a_spec(checkpoint=CheckpointWish(max_interval_s=20)) == headquarters.job().spec


def test_a_disk_that_fills_up_under_a_job_is_told_in_its_story_and_takes_nobody_new() -> None:
    headquarters = a_running_job()
    for disk in (DiskRoom.SHORT, DiskRoom.FULL, DiskRoom.FULL, DiskRoom.FINE):
        headquarters.joins("alpha", facts(disk=disk), guests=["job-e1"])
    assert headquarters.run().living
    told = [reason for _, reason in headquarters.told if reason.subject == "job"][-3:]
    assert [reason.why for reason in told] == [Why.DISK_SHORT, Why.DISK_FULL, Why.DISK_HAS_ROOM]
    assert "nothing of it is saved yet" in told[0].sentence()


def test_a_disk_that_each_save_fills_for_a_moment_is_not_told_of_at_each() -> None:
    headquarters = a_running_job()
    for _ in range(9):
        for disk in (DiskRoom.SHORT, DiskRoom.FINE):
            headquarters.later(300).joins("alpha", facts(disk=disk), guests=["job-e1"])
    told = [reason.why for _, reason in headquarters.told if reason.subject == "job"]
    of_disk = [why for why in told if why in (Why.DISK_SHORT, Why.DISK_HAS_ROOM)]
    assert of_disk == [Why.DISK_SHORT, Why.DISK_HAS_ROOM] * 2  # in an hour and a half


def test_a_place_too_full_for_the_fence_of_a_run_is_named_in_its_job_s_story() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    report = RunStarted(
        run_id=RunId("job-e1"),
        job_id=JobId("job"),
        epoch=1,
        restored=None,
        resumed_step=0,
        restore_s=1.0,
        passed_over="attic: no space left",
    )
    decision = headquarters.reported("alpha", report)
    assert whys(decision) == [Why.STARTED, Why.PLACES_PASSED_OVER]
    assert "(attic: no space left)" in decision.reasons[1].sentence()


def test_a_program_that_only_says_run_me_again_is_not_run_for_ever() -> None:
    headquarters = a_running_job()
    for epoch in range(1, CIRCLES_MOST):
        headquarters.later(1).ended(f"job-e{epoch}", EndReason.SAVED)
        headquarters.later(1).started(f"job-e{epoch + 1}")
    decision = headquarters.ended(f"job-e{CIRCLES_MOST}", EndReason.SAVED, exit_code=85)
    assert headquarters.job().phase is JobPhase.FAILED
    assert "ended with status 85 (saved, run me again) 10 times in a row" in decision.reasons[0].sentence()


@pytest.mark.parametrize(("worked_s", "steps"), [(QUICK_S, 0), (1.0, 1)])
def test_a_program_that_works_in_pieces_is_run_again_as_often_as_it_asks(worked_s: float, steps: int) -> None:
    headquarters, step = a_running_job(), 0
    for epoch in range(1, 3 * CIRCLES_MOST):
        step += steps
        headquarters.later(worked_s).ended(f"job-e{epoch}", EndReason.SAVED, step=step)
        headquarters.started(f"job-e{epoch + 1}", step=step)
    assert headquarters.job().phase is JobPhase.RUNNING
