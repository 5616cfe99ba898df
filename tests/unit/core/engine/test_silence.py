"""Nodes that fall silent, are heard again, come back without their memory, or are given up."""

from __future__ import annotations

import pytest

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.migration import Cause, MigrationPhase
from gpunion.domain.jobs.run import EndReason, RunPhase
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.commit import Commit
from gpunion.domain.protocol.effects import CancelTimer, ForgetOrders, SetTimer
from gpunion.domain.protocol.events import NodeFellSilent, NodeHeard, OwnerReclaimed, TimerFired
from gpunion.domain.protocol.orders import StopRun
from gpunion.domain.protocol.reports import NoticeGiven
from gpunion.domain.protocol.timers import coordinator_timer
from gpunion.domain.reasons.reason import Why
from tests.builders import (
    TIMING,
    Headquarters,
    a_campus,
    a_running_job,
    a_spec,
    a_stop,
    facts,
    orders,
    timers_of,
    whys,
)

FENCE_S = TIMING.fence_s()


def test_a_silent_node_keeps_its_guests_until_they_are_certainly_gone() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    heard_s = headquarters.now_s
    source = headquarters.run().node_id
    decision = headquarters.later(6).silent(source, heard_s=heard_s)
    assert headquarters.node(source).phase is NodePhase.SILENT
    assert headquarters.run().living
    assert decision.effects[0] == SetTimer(timer=coordinator_timer("give_up:job-e1"), at_s=heard_s + FENCE_S)
    assert whys(decision) == [Why.NODE_WENT_SILENT, Why.NODE_WENT_SILENT]
    assert f"{FENCE_S - 6:.1f}" in decision.reasons[0].sentence()


def test_the_fence_is_as_long_as_the_owner_lets_guests_go_on_alone() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(terms=Terms(autonomy_s=3600)))
    headquarters.submits()
    headquarters.started()
    decision = headquarters.silent("alpha")
    assert timers_of(decision)["give_up:job-e1"] == headquarters.now_s + TIMING.fence_s(3600)


def test_a_node_given_up_has_its_job_go_on_elsewhere_from_the_last_durable_step() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    source = headquarters.run().node_id
    headquarters.fires("checkpoint:job-e1")
    headquarters.captured("job-e1-c1", step=40)
    headquarters.durable("job-e1-c1", step=40)
    headquarters.engine.note_progress(headquarters.run().id, 55, 0.5)
    silent_s = headquarters.now_s
    headquarters.silent(source)
    decision = headquarters.fires("give_up:job-e1")
    assert whys(decision) == [Why.NODE_GIVEN_UP, Why.PLACED]
    assert headquarters.run().end_reason is EndReason.NODE_LOST
    assert headquarters.run().last_step == 55
    (node, order), *_ = orders(decision)
    assert node != source
    assert (order.epoch, order.restore, order.restore_step) == (2, "job-e1-c1", 40)  # type: ignore[union-attr]
    migration = headquarters.state.migrations[headquarters.job().migration]  # type: ignore[index]
    assert (migration.cause, migration.stopped_s) == (Cause.NODE_LOST, silent_s)
    headquarters.later(2).started("job-e2", step=40, restored="job-e1-c1")
    assert headquarters.state.migrations[migration.id].steps_redone == 15
    assert headquarters.state.migrations[migration.id].phase is MigrationPhase.DONE


def test_a_node_heard_again_in_time_keeps_its_guests() -> None:
    headquarters = a_running_job()
    headquarters.silent("alpha")
    decision = headquarters.later(3).hears(NodeHeard(node_id=NodeId("alpha")))
    assert headquarters.node().phase is NodePhase.SHARING
    assert decision.effects == (CancelTimer(timer=coordinator_timer("give_up:job-e1")),)
    assert whys(decision) == [Why.NODE_HEARD_AGAIN]


def test_a_node_that_says_hello_again_in_time_keeps_its_guests_and_its_owner_s_word() -> None:
    headquarters = a_running_job()
    headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 600))
    headquarters.silent("alpha")
    decision = headquarters.later(3).joins("alpha", guests=["job-e1"])
    assert headquarters.node().phase is NodePhase.RECLAIMING
    assert timers_of(decision)["give_up:job-e1"] is None
    assert orders(decision) == []


def test_hello_of_a_node_that_is_not_silent_changes_only_its_facts() -> None:
    headquarters = a_running_job()
    assert headquarters.joins("alpha", guests=["job-e1"]).empty
    more = facts(gpus=2)
    assert headquarters.joins("alpha", more, guests=["job-e1"]).changes == (headquarters.node(),)
    assert headquarters.node().facts == more


def test_what_is_said_of_unknown_or_left_or_silent_nodes_twice_changes_nothing() -> None:
    headquarters = a_running_job()
    headquarters.silent("alpha")
    assert headquarters.silent("alpha").empty
    assert headquarters.silent("nowhere").empty
    assert headquarters.hears(NodeHeard(node_id=NodeId("nowhere"))).empty


def test_nothing_happens_when_a_run_that_ended_meanwhile_is_given_up() -> None:
    headquarters = a_running_job()
    headquarters.silent("alpha")
    headquarters.hears(NodeHeard(node_id=NodeId("alpha")))
    headquarters.ended("job-e1", EndReason.FINISHED)
    assert headquarters.hears(TimerFired(timer=coordinator_timer("give_up:job-e1"))).empty
    assert headquarters.hears(TimerFired(timer=coordinator_timer("give_up:unknown-e1"))).empty


def test_the_guests_of_an_agent_that_lost_its_memory_are_waited_for_and_then_given_up() -> None:
    headquarters = a_running_job()
    decision = headquarters.joins("alpha", incarnation="second")
    assert decision.effects == (
        ForgetOrders(node_id=NodeId("alpha")),
        SetTimer(timer=coordinator_timer("fence:job-e1"), at_s=headquarters.now_s + FENCE_S),
    )
    assert headquarters.run().living
    assert whys(decision, "job") == [Why.FORGOTTEN_THERE]
    assert whys(headquarters.fires("fence:job-e1"), "job") == [Why.NODE_BEGAN_ANEW, Why.PLACED]


def test_one_that_begins_anew_and_falls_silent_after_that_is_said_to_be_silent() -> None:
    headquarters = a_running_job()
    headquarters.joins("alpha", incarnation="second")
    assert whys(headquarters.joins("alpha", incarnation="third"), "job") == []
    headquarters.silent("alpha")
    assert Why.NODE_GIVEN_UP in whys(headquarters.fires("fence:job-e1"), "job")


def test_a_silence_after_a_lost_memory_does_not_bring_the_former_guests_back() -> None:
    headquarters = a_running_job()
    headquarters.joins("alpha", incarnation="second")
    fence_s = headquarters.timer_at("fence:job-e1")
    headquarters.later(7).silent("alpha")
    headquarters.later(1).hears(NodeHeard(node_id=NodeId("alpha")))
    assert headquarters.timer_at("fence:job-e1") == fence_s
    headquarters.fires("fence:job-e1")
    assert headquarters.job().epoch == 2


def test_a_lost_memory_ends_a_silence_and_a_notice() -> None:
    headquarters = a_running_job()
    headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 60))
    headquarters.silent("alpha")
    headquarters.joins("alpha", incarnation="second")
    assert headquarters.node().phase is NodePhase.SHARING
    assert headquarters.node().deadline_s is None


def test_leftovers_of_a_node_heard_too_late_are_told_to_stop() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    source = headquarters.run().node_id
    headquarters.silent(source)
    headquarters.fires("give_up:job-e1")
    decision = headquarters.joins(source, guests=["job-e1"])
    assert orders(decision) == [(source, a_stop("job-e1"))]


def test_a_guest_that_starts_for_an_old_epoch_is_stopped() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    source = headquarters.run().node_id
    headquarters.silent(source)
    headquarters.fires("give_up:job-e1")
    decision = headquarters.started("job-e1")
    assert whys(decision) == [Why.STALE_EPOCH]
    assert orders(decision) == [(source, a_stop("job-e1"))]


@pytest.mark.parametrize("reason", [EndReason.FAILED, EndReason.FINISHED, EndReason.SAVED])
def test_the_end_of_an_old_epoch_changes_nothing(reason: EndReason) -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    headquarters.silent(headquarters.run().node_id)
    headquarters.fires("give_up:job-e1")
    decision = headquarters.ended("job-e1", reason)
    assert (decision.changes, decision.effects) == ((), ())
    assert (
        decision.reasons[0].sentence() == "late news of run 1 of it changed nothing: by then it was at run 2"
    )


def given_up_at(step: int) -> Headquarters:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    headquarters.fires("checkpoint:job-e1")
    headquarters.captured("job-e1-c1", step=40)
    headquarters.durable("job-e1-c1", step=40)
    headquarters.engine.note_progress(headquarters.run().id, step, 0.5)
    headquarters.silent(headquarters.run().node_id)
    headquarters.fires("give_up:job-e1")
    return headquarters


def test_of_a_run_that_was_given_up_nobody_knows_yet_how_much_is_to_redo() -> None:
    """Its guest worked on after the last heartbeat, until its lease was over."""
    headquarters = given_up_at(55)
    told = headquarters.later(2).started("job-e2", step=40, restored="job-e1-c1").reasons
    (moved,) = [reason.sentence() for reason in told if reason.why is Why.MOVED]
    assert "at least 15 steps to redo: how far it got after step 55 was not heard" in moved


def test_once_its_machine_is_back_it_is_told_how_much_that_was() -> None:
    headquarters = given_up_at(55)
    headquarters.later(2).started("job-e2", step=40, restored="job-e1-c1")
    late = headquarters.ended("job-e1", EndReason.LEASE_ENDED, step=181)
    assert late.changes == ()
    assert [reason.sentence() for reason in late.reasons] == [
        "late news of run 1 of it: it had got to step 181 before it ended, so that 141 steps were to redo"
    ]


def test_a_machine_that_is_back_before_the_next_run_began_tells_how_far_it_got() -> None:
    late = given_up_at(55).ended("job-e1", EndReason.LEASE_ENDED, step=181)
    assert [reason.sentence() for reason in late.reasons] == [
        "late news of run 1 of it: it had got to step 181 before it ended"
    ]


def test_late_news_that_tells_nothing_new_of_its_steps_says_so() -> None:
    late = given_up_at(55).ended("job-e1", EndReason.LEASE_ENDED, step=55)
    assert late.reasons[0].sentence().startswith("late news of run 1 of it changed nothing")


def test_checkpoints_of_an_old_epoch_change_nothing() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    headquarters.fires("checkpoint:job-e1")
    headquarters.silent(headquarters.run().node_id)
    headquarters.fires("give_up:job-e1")
    for decision in (
        headquarters.captured("job-e1-c1", step=9),
        headquarters.durable("job-e1-c1", step=9),
        headquarters.not_saved("job-e1-c1"),
    ):
        assert (decision.changes, decision.effects) == ((), ())
        assert whys(decision) == [Why.STALE_EPOCH]
    assert headquarters.job().durable is None


def test_a_run_that_had_finished_before_it_was_given_up_has_finished() -> None:
    headquarters = a_running_job()
    headquarters.silent("alpha")
    headquarters.fires("give_up:job-e1")
    assert headquarters.job().phase is JobPhase.MIGRATING
    decision = headquarters.ended("job-e1", EndReason.FINISHED, exit_code=0)
    assert headquarters.job().phase is JobPhase.SUCCEEDED
    assert whys(decision) == [Why.FINISHED]
    assert headquarters.state.moving == set()


def test_a_run_that_failed_before_it_was_given_up_is_run_again() -> None:
    headquarters = a_running_job()
    headquarters.silent("alpha")
    headquarters.fires("give_up:job-e1")
    assert whys(headquarters.ended("job-e1", EndReason.FAILED, exit_code=1)) == [Why.STALE_EPOCH]
    assert headquarters.job().phase is JobPhase.MIGRATING


def test_a_save_that_arrives_after_its_run_was_given_up_still_counts_while_nothing_newer_runs() -> None:
    headquarters = a_running_job()
    headquarters.fires("checkpoint:job-e1")
    headquarters.silent("alpha")
    headquarters.fires("give_up:job-e1")
    headquarters.durable("job-e1-c1", step=30)
    durable = headquarters.job().durable
    assert durable is not None
    assert durable.step == 30


def test_a_job_being_stopped_on_a_node_given_up_is_cancelled() -> None:
    headquarters = a_running_job()
    headquarters.stops()
    headquarters.silent("alpha")
    decision = headquarters.fires("give_up:job-e1")
    assert headquarters.job().phase is JobPhase.CANCELLED
    assert Why.CANCELLED in whys(decision)


def test_a_run_that_was_ordered_and_never_heard_of_goes_with_its_node() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    headquarters.silent("alpha")
    headquarters.fires("give_up:job-e1")
    assert headquarters.run().phase is RunPhase.ENDED
    assert headquarters.job().phase is JobPhase.MIGRATING


def test_a_flush_under_way_on_a_node_given_up_is_fallen_back_from() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    source = headquarters.run().node_id
    headquarters.reported(source, NoticeGiven(deadline_s=headquarters.now_s + 60))
    headquarters.silent(source)
    decision = headquarters.fires("give_up:job-e1")
    assert Why.FELL_BACK in whys(decision, "job")
    assert headquarters.job().epoch == 2


def test_on_the_wire_nobody_is_given_up_a_moment_before_the_fence() -> None:
    campus = a_campus()
    campus.submits("job", a_spec(expected_s=500))
    source = campus.machine_of()
    campus.advance(10)
    heard_s = campus.station.leases.last_heard_s(source.node_id)
    assert heard_s is not None
    source.linked = False
    campus.advance(heard_s + FENCE_S - campus.now_s - 0.01)
    assert campus.job().epoch == 1
    assert source.living() == []
    campus.advance(0.02)
    assert campus.job().epoch == 2
    source.linked = True
    campus.advance(1000)
    assert campus.job().phase is JobPhase.SUCCEEDED


def test_on_the_wire_a_short_silence_costs_nothing() -> None:
    campus = a_campus()
    campus.submits("job", a_spec(expected_s=100))
    source = campus.machine_of()
    campus.advance(10)
    source.linked = False
    campus.advance(7)
    assert campus.node(source.node_id).phase is NodePhase.SILENT
    source.linked = True
    campus.advance(100)
    assert (campus.job().phase, campus.job().epoch) == (JobPhase.SUCCEEDED, 1)


def test_on_the_wire_an_agent_that_lost_its_memory_and_then_fell_silent_holds_no_job_for_ever() -> None:
    campus = a_campus(["alpha"])
    campus.submits("job", a_spec(expected_s=100))
    machine = campus.machine_of()
    machine.crashes()
    machine.restarts(forgetful="second")
    campus.advance(1)
    machine.linked = False
    campus.advance(8)
    machine.linked = True
    campus.advance(400)
    assert campus.job().phase is JobPhase.SUCCEEDED


def test_silence_is_an_event_only_once() -> None:
    campus = a_campus(["alpha"])
    campus.machines[NodeId("alpha")].linked = False
    campus.advance(60)
    silences = [c for c in campus.commits if isinstance(c, Commit) and isinstance(c.event, NodeFellSilent)]
    assert len(silences) == 1
    assert StopRun not in [type(order.order) for c in silences for order in c.orders]


def test_a_second_lost_memory_does_not_put_the_fence_off() -> None:
    headquarters = a_running_job()
    headquarters.joins("alpha", incarnation="second")
    fence_s = headquarters.timer_at("fence:job-e1")
    headquarters.later(5).joins("alpha", incarnation="third")
    assert headquarters.timer_at("fence:job-e1") == fence_s


def test_after_an_outage_of_the_coordinator_the_agent_says_since_when_it_stood_still_and_why() -> None:
    campus = a_campus(["alpha"])
    campus.submits("job", a_spec(expected_s=5000))
    campus.advance(30)
    campus.falls()
    campus.advance(600)
    campus.rises()
    campus.advance(20)
    told = {reason.why: reason for _, reason in campus.told if reason.subject == "job"}
    assert Why.ENDED_ITSELF not in told
    [move] = campus.station.engine.state.migrations.values()
    assert move.cause is Cause.LEASE_ENDED
    alone_s = TIMING.lease_s + TIMING.grace_s + TIMING.heartbeat_s
    assert move.downtime_s == pytest.approx(600.0, abs=alone_s + TIMING.heartbeat_s)
    ago_s = dict(told[Why.SAVED_OUT_OF_TOUCH].facts)["ago_s"]
    assert ago_s == pytest.approx(600.0, abs=alone_s)


def test_a_reclaim_while_the_coordinator_was_away_is_told_as_one() -> None:
    campus = a_campus(["alpha", "beta"])
    campus.submits("job", a_spec(expected_s=5000))
    campus.advance(30)
    source = campus.machine_of()
    campus.falls()
    campus.advance(2)
    source.owner(OwnerReclaimed(notice_s=5))
    campus.advance(100)
    campus.rises()
    campus.advance(20)
    told = set(campus.whys("job"))
    assert Why.OWNER_TOOK_NODE in told
    assert not {Why.ENDED_ITSELF, Why.NOTICE_TOO_SHORT, Why.OWNER_WANTS_NODE} & told
    [move] = campus.station.engine.state.migrations.values()
    assert move.cause is Cause.OWNER_RECLAIM
    assert move.downtime_s == pytest.approx(100.0, abs=10.0)


@pytest.mark.parametrize("told_s", [-1e6, 1e6])
def test_a_clock_that_names_an_impossible_moment_is_not_believed(told_s: float) -> None:
    headquarters = a_running_job()
    at_s = headquarters.later(50).now_s
    headquarters.ended("job-e1", EndReason.LEASE_ENDED, at_s=told_s)
    [move] = headquarters.state.migrations.values()
    assert move.stopped_s == at_s


def test_an_agent_that_says_what_cannot_be_of_a_save_is_told_as_one_that_said_nothing() -> None:
    headquarters = a_running_job()
    decision = headquarters.ended("job-e1", EndReason.SAVED, saved_for=EndReason.FINISHED)
    [move] = headquarters.state.migrations.values()
    assert move.cause is Cause.SELF_SAVED
    assert Why.ENDED_ITSELF in whys(decision, "job")


def test_a_job_whose_output_is_still_on_its_way_is_told_so_once_and_not_asked_to_save_again() -> None:
    headquarters = a_running_job()
    headquarters.fires("checkpoint:job-e1")
    decision = headquarters.not_saved("job-e1-c1", CheckpointTrouble.OVER)
    assert whys(decision, "job") == [Why.OUTPUT_ON_ITS_WAY]
    assert headquarters.timer_at("checkpoint:job-e1") is None


def test_a_save_asked_for_after_an_end_nobody_had_heard_of_is_nobody_s_failure() -> None:
    headquarters = a_running_job()
    headquarters.fires("checkpoint:job-e1")
    headquarters.ended("job-e1", EndReason.LEASE_ENDED)
    decision = headquarters.not_saved("job-e1-c1", CheckpointTrouble.NO_GUEST)
    assert Why.SAVE_FAILED not in whys(decision)
