"""An owner wants the machine back: what is saved, where it goes, and what happens when that goes wrong."""

from __future__ import annotations

import pytest

from gpunion.domain.checkpoint import CheckpointTrouble
from gpunion.domain.effects import CancelTimer, SendOrder, SetTimer
from gpunion.domain.events import OwnerKilled, OwnerReclaimed, OwnerResumed, TimerFired
from gpunion.domain.guest import Tenure
from gpunion.domain.ids import NodeId, checkpoint_id
from gpunion.domain.job import JobPhase
from gpunion.domain.migration import Cause, Migration, MigrationPhase
from gpunion.domain.node import NodePhase
from gpunion.domain.orders import StartRun, TakeCheckpoint
from gpunion.domain.reasons import Why
from gpunion.domain.reports import (
    CheckpointCaptured,
    NodeLeft,
    NodePaused,
    NodeReclaimed,
    NodeResumed,
    NoticeGiven,
)
from gpunion.domain.resources import MIB
from gpunion.domain.run import EndReason, RunPhase
from gpunion.engine.moving import FLUSH_GUARD_S, WORD_GUARD_S
from gpunion.policy.bandwidth import reclaim_cap_bps
from tests.builders import (
    GIGABIT_BPS,
    TIMING,
    Headquarters,
    a_campus,
    a_running_job,
    a_spec,
    facts,
    orders,
    timers_of,
    whys,
)


def two_nodes(notice_s: float = 60.0) -> tuple[Headquarters, str]:
    """One job running, its node wanted back, a second node free. The node, and headquarters after it."""
    headquarters = a_running_job(nodes=["alpha", "beta"])
    headquarters.later(10)
    node = headquarters.run().node_id
    headquarters.reported(node, NoticeGiven(deadline_s=headquarters.now_s + notice_s))
    return headquarters, node


def migration(headquarters: Headquarters, number: int = 1, job: str = "job") -> Migration:
    return next(m for m in headquarters.state.migrations.values() if m.id == f"{job}-m{number}")


def test_a_notice_that_is_long_enough_asks_for_a_last_save_by_its_deadline() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    node = headquarters.run().node_id
    other = next(name for name in ("alpha", "beta") if name != node)
    deadline_s = headquarters.now_s + 60
    decision = headquarters.reported(node, NoticeGiven(deadline_s=deadline_s))
    assert decision.effects == (
        SendOrder(
            node_id=node,
            order=TakeCheckpoint(
                run_id=headquarters.run().id,
                job_id=headquarters.job().id,
                epoch=1,
                checkpoint_id=checkpoint_id(headquarters.run().id, 1),
                final=True,
                by_s=deadline_s,
                rate_bps=reclaim_cap_bps(GIGABIT_BPS),
            ),
        ),
        CancelTimer(key="checkpoint:job-e1"),
        SetTimer(key="flush:job-m1", at_s=deadline_s + WORD_GUARD_S),
    )
    assert whys(decision, "job") == [Why.OWNER_WANTS_NODE, Why.FLUSH_FITS]
    assert (headquarters.job().phase, headquarters.run().phase) == (JobPhase.LEAVING, RunPhase.LEAVING)
    assert migration(headquarters).destination == other
    assert headquarters.node(node).departures == 1


def test_a_saved_job_goes_to_the_place_that_was_kept_for_it() -> None:
    headquarters, node = two_nodes()
    headquarters.captured("job-e1-c1", step=50, stall_s=2.0)
    stopped_s = headquarters.now_s - 2.0
    headquarters.later(1).ended("job-e1", EndReason.SAVED, step=50)
    assert headquarters.job().phase is JobPhase.MIGRATING
    decision = headquarters.later(1).durable("job-e1-c1", step=50, final=True, shipped_bytes=5 * MIB)
    [(destination, order)] = orders(decision)
    assert destination != node
    assert isinstance(order, StartRun)
    assert (order.epoch, order.restore, order.restore_step) == (2, "job-e1-c1", 50)
    assert Why.PLACED in whys(decision, "job")
    resumed_s = headquarters.later(3).now_s
    moved = headquarters.started("job-e2", step=50, restored="job-e1-c1").reasons[-1]
    assert moved.sentence() == f"moved from {node} to {destination}; stood still for 7 s, 0 steps to redo"
    done = migration(headquarters)
    assert (done.phase, done.fell_back, done.shipped_bytes) == (MigrationPhase.DONE, False, 5 * MIB)
    assert done.downtime_s == resumed_s - stopped_s


def test_it_makes_no_difference_whether_the_end_or_the_save_is_heard_of_first() -> None:
    headquarters, _ = two_nodes()
    headquarters.durable("job-e1-c1", step=50, final=True)
    assert headquarters.job().phase is JobPhase.LEAVING
    headquarters.ended("job-e1", EndReason.SAVED, step=50)
    assert headquarters.job().epoch == 2
    assert not migration(headquarters).fell_back


def test_the_kept_place_goes_to_nobody_else() -> None:
    headquarters, _ = two_nodes()
    headquarters.submits("other")
    assert headquarters.job("other").phase is JobPhase.PENDING
    headquarters.durable("job-e1-c1", step=5, final=True)
    decision = headquarters.ended("job-e1", EndReason.SAVED)
    assert [order.job_id for _, order in orders(decision)] == ["job"]
    placed = next(reason for reason in decision.reasons if reason.why is Why.PLACED)
    assert "a place was kept for it there" in placed.sentence()


def test_a_notice_shorter_than_capture_falls_back_to_last_durable() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    headquarters.fires("checkpoint:job-e1")
    headquarters.durable("job-e1-c1", step=30)
    node = headquarters.run().node_id
    decision = headquarters.later(5).reported(node, NoticeGiven(deadline_s=headquarters.now_s + 1))
    assert orders(decision) == []
    assert whys(decision, "job") == [Why.OWNER_WANTS_NODE, Why.NOTICE_TOO_SHORT]
    assert "going on from step 30" in decision.reasons[-1].sentence()
    assert headquarters.job().phase is JobPhase.RUNNING
    ended = headquarters.ended("job-e1", EndReason.DEADLINE, step=44)
    assert whys(ended, "job") == [Why.FELL_BACK, Why.PLACED]
    assert migration(headquarters).fell_back
    headquarters.started("job-e2", step=30, restored="job-e1-c1")
    assert migration(headquarters).steps_redone == 14


def test_of_several_guests_on_a_scarce_uplink_the_most_work_per_byte_is_saved() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=3, uplink_bps=60e6))
    for job in ("old", "new", "big"):
        headquarters.submits(job)
        headquarters.started(f"{job}-e1")
        if job == "old":
            headquarters.later(1000)
    headquarters.later(10)
    decision = headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 30))
    saved = [order.job_id for _, order in orders(decision)]
    assert saved == ["old"]
    assert Why.FLUSH_FITS in whys(decision, "old")
    assert Why.NOTICE_TOO_SHORT in whys(decision, "new")
    assert Why.NOTICE_TOO_SHORT in whys(decision, "big")


def test_flushes_of_one_node_share_half_of_its_uplink() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=2))
    for job in ("one", "two"):
        headquarters.submits(job)
        headquarters.started(f"{job}-e1")
    decision = headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 60))
    rates = [order.rate_bps for _, order in orders(decision) if isinstance(order, TakeCheckpoint)]
    assert len(rates) == 2
    assert sum(rates) == pytest.approx(reclaim_cap_bps(GIGABIT_BPS))


def test_a_guest_that_starts_during_the_notice_gets_what_the_flushes_leave() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=2))
    headquarters.submits("one")
    headquarters.started("one-e1")
    headquarters.submits("two")
    headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 60))
    decision = headquarters.started("two-e1")
    # One flow alone may have the whole share, so nothing is left for the second: it falls back.
    assert orders(decision) == []
    assert Why.NOTICE_TOO_SHORT in whys(decision, "two")


def test_a_destination_reclaimed_in_mid_move_is_no_special_case() -> None:
    headquarters, _ = two_nodes()
    other = migration(headquarters).destination
    assert other is not None
    headquarters.reported(other, NoticeGiven(deadline_s=headquarters.now_s + 60))
    headquarters.durable("job-e1-c1", step=5, final=True)
    headquarters.ended("job-e1", EndReason.SAVED)
    assert headquarters.job().phase is JobPhase.MIGRATING
    decision = headquarters.joins("gamma")
    assert [node for node, _ in orders(decision)] == ["gamma"]


def test_a_destination_reclaimed_while_the_job_starts_there_is_left_again() -> None:
    headquarters, _ = two_nodes()
    headquarters.durable("job-e1-c1", step=5, final=True)
    headquarters.ended("job-e1", EndReason.SAVED)
    second = headquarters.run("job-e2").node_id
    headquarters.joins("gamma")
    headquarters.reported(second, NoticeGiven(deadline_s=headquarters.now_s + 60))
    decision = headquarters.ended("job-e2", EndReason.REFUSED, why=Why.OWNER_SAID_NO)
    assert whys(decision) == [Why.RUN_REFUSED, Why.PLACED]
    assert headquarters.run("job-e3").node_id == "gamma"
    assert migration(headquarters).phase is MigrationPhase.RESTARTING


def test_a_last_save_that_fails_falls_back_and_says_what_went_wrong() -> None:
    headquarters, _ = two_nodes()
    headquarters.not_saved("job-e1-c1", CheckpointTrouble.VAULT_FULL)
    assert headquarters.job().phase is JobPhase.LEAVING
    decision = headquarters.ended("job-e1", EndReason.DEADLINE)
    fell_back = next(reason for reason in decision.reasons if reason.why is Why.FELL_BACK)
    assert fell_back.sentence() == (
        "its last save did not arrive (there is no room where its saves are kept); going on from step 0"
    )
    assert headquarters.job().epoch == 2


def test_a_last_save_that_fails_after_the_guest_is_gone_falls_back() -> None:
    headquarters, _ = two_nodes()
    headquarters.captured("job-e1-c1", step=7)
    headquarters.ended("job-e1", EndReason.SAVED)
    decision = headquarters.not_saved("job-e1-c1", CheckpointTrouble.DEADLINE)
    assert whys(decision, "job") == [Why.SAVE_FAILED, Why.FELL_BACK, Why.PLACED]


def test_nobody_waits_for_ever_for_word_of_a_last_save() -> None:
    headquarters, _ = two_nodes()
    headquarters.ended("job-e1", EndReason.DEADLINE)
    decision = headquarters.fires("flush:job-m1")
    assert whys(decision, "job") == [Why.FELL_BACK, Why.PLACED]
    assert "no word of it" in decision.reasons[0].sentence()


def test_an_overdue_save_of_a_run_that_lives_is_waited_for_longer() -> None:
    headquarters, _ = two_nodes()
    decision = headquarters.fires("flush:job-m1")
    assert decision.effects == (SetTimer(key="flush:job-m1", at_s=headquarters.now_s + FLUSH_GUARD_S),)


def test_an_overdue_timer_of_a_move_that_went_on_says_nothing() -> None:
    headquarters, _ = two_nodes()
    headquarters.durable("job-e1-c1", step=5, final=True)
    headquarters.ended("job-e1", EndReason.SAVED)
    assert headquarters.hears(TimerFired(key="flush:job-m1")).empty
    assert headquarters.hears(TimerFired(key="flush:nothing")).empty


def test_an_owner_who_changes_their_mind_keeps_a_guest_that_was_only_waiting() -> None:
    headquarters = a_running_job()
    headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 1))
    assert headquarters.job().migration is not None
    decision = headquarters.reported("alpha", NodeResumed())
    assert whys(decision) == [Why.NODE_BACK, Why.MAY_STAY]
    assert (headquarters.job().phase, headquarters.job().migration) == (JobPhase.RUNNING, None)
    assert migration(headquarters).phase is MigrationPhase.ABANDONED
    assert headquarters.node().deadline_s is None


def test_an_owner_who_changes_their_mind_lets_a_last_save_go_on() -> None:
    headquarters, node = two_nodes()
    headquarters.reported(node, NodeResumed())
    assert headquarters.job().phase is JobPhase.LEAVING
    headquarters.durable("job-e1-c1", step=5, final=True)
    headquarters.ended("job-e1", EndReason.SAVED)
    assert headquarters.job().phase is JobPhase.STARTING


def test_a_last_save_that_fails_when_nobody_wants_the_node_any_more_lets_the_guest_stay() -> None:
    headquarters, node = two_nodes()
    headquarters.reported(node, NodeResumed())
    decision = headquarters.not_saved("job-e1-c1")
    assert (headquarters.job().phase, headquarters.run().phase) == (JobPhase.RUNNING, RunPhase.RUNNING)
    assert timers_of(decision)["flush:job-m1"] is None
    assert "checkpoint:job-e1" in headquarters.timers


def test_an_owner_who_changes_their_mind_after_the_save_failed_keeps_the_guest() -> None:
    headquarters, node = two_nodes()
    headquarters.not_saved("job-e1-c1")
    headquarters.reported(node, NodeResumed())
    assert (headquarters.job().phase, headquarters.run().phase) == (JobPhase.RUNNING, RunPhase.RUNNING)
    assert migration(headquarters).phase is MigrationPhase.ABANDONED
    assert headquarters.timers.at("checkpoint:job-e1") is not None
    again = headquarters.reported(node, NoticeGiven(deadline_s=headquarters.now_s + 60))
    assert [type(order) for _, order in orders(again)] == [TakeCheckpoint]


def test_a_save_the_agent_took_by_itself_is_as_good_as_the_one_asked_for() -> None:
    headquarters, _ = two_nodes()
    headquarters.not_saved("job-e1-c1", CheckpointTrouble.SUPERSEDED)
    headquarters.captured("job-e1-a1", step=60)
    headquarters.ended("job-e1", EndReason.SAVED, step=60)
    assert headquarters.job().epoch == 1
    decision = headquarters.durable("job-e1-a1", step=60, final=True)
    assert whys(decision, "job") == [Why.SAVED, Why.PLACED]
    assert not migration(headquarters).fell_back


def test_a_save_the_agent_took_by_itself_that_is_durable_already_needs_no_waiting() -> None:
    headquarters, _ = two_nodes()
    headquarters.not_saved("job-e1-c1", CheckpointTrouble.SUPERSEDED)
    headquarters.durable("job-e1-a1", step=60, final=True)
    decision = headquarters.ended("job-e1", EndReason.SAVED, step=60)
    assert whys(decision, "job") == [Why.PLACED]
    assert not migration(headquarters).fell_back


def test_a_program_that_saved_itself_in_a_notice_too_short_to_ask_is_waited_for() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    node = headquarters.run().node_id
    headquarters.reported(node, NoticeGiven(deadline_s=headquarters.now_s + 1))
    headquarters.captured("job-e1-a1", step=20)
    headquarters.ended("job-e1", EndReason.SAVED, step=20)
    assert headquarters.job().epoch == 1
    headquarters.durable("job-e1-a1", step=20, final=True)
    assert headquarters.job().epoch == 2


def test_a_guest_the_agent_ended_alone_is_told_of_as_the_owner_s_doing() -> None:
    headquarters = a_running_job()
    decision = headquarters.ended("job-e1", EndReason.DEADLINE)
    assert whys(decision, "job") == [Why.OWNER_WANTS_NODE, Why.PLACED]
    assert migration(headquarters).cause is Cause.OWNER_RECLAIM


def test_a_guest_that_saved_itself_during_a_notice_left_for_the_owner() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 60))
    headquarters.ended("job-e1", EndReason.SAVED)
    assert migration(headquarters).cause is Cause.OWNER_RECLAIM


def test_a_killed_guest_goes_elsewhere_and_its_user_is_told_who_did_it() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    node = headquarters.run().node_id
    decision = headquarters.reported(node, NodeReclaimed(freed_after_s=0.0, killed=True))
    assert whys(decision) == [Why.OWNER_KILLED]
    assert headquarters.node(node).departures == 1
    ended = headquarters.ended("job-e1", EndReason.KILLED_BY_OWNER)
    assert whys(ended, "job") == [Why.OWNER_KILLED, Why.PLACED]
    assert headquarters.run("job-e2").node_id != node
    assert migration(headquarters).cause is Cause.OWNER_KILL


def test_a_reclaimed_node_is_the_owner_s_until_they_resume() -> None:
    headquarters, node = two_nodes()
    decision = headquarters.reported(node, NodeReclaimed(freed_after_s=4.0))
    assert decision.reasons[0].sentence() == "the machine was free 4 s after the owner asked"
    assert headquarters.node(node).phase is NodePhase.RECLAIMED
    assert headquarters.node(node).departures == 1


def test_a_node_that_leaves_has_its_orders_forgotten_and_its_guests_fenced() -> None:
    headquarters = a_running_job()
    announced = headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 1, leaving=True))
    assert whys(announced, "alpha") == [Why.OWNER_LEFT]
    decision = headquarters.reported("alpha", NodeLeft())
    assert headquarters.node().phase is NodePhase.LEFT
    assert timers_of(decision) == {"fence:job-e1": headquarters.now_s + TIMING.fence_s()}
    headquarters.fires("fence:job-e1")
    assert headquarters.job().phase is JobPhase.MIGRATING
    headquarters.later(100).joins("alpha", incarnation="again")
    assert headquarters.node().phase is NodePhase.SHARING
    assert headquarters.job().phase is JobPhase.STARTING


@pytest.mark.parametrize(
    "report",
    [NodePaused(), NodeResumed(), NodeLeft(), NoticeGiven(deadline_s=0), NodeReclaimed(freed_after_s=0)],
)
def test_what_an_unknown_node_says_is_answered_with_a_reason(report: NodePaused) -> None:
    decision = Headquarters().reported("nowhere", report)
    assert whys(decision) == [Why.UNKNOWN_NODE]
    assert decision.changes == ()


def test_a_second_word_moves_the_deadline() -> None:
    headquarters, node = two_nodes(60)
    headquarters.reported(node, NoticeGiven(deadline_s=headquarters.now_s + 20))
    assert headquarters.node(node).deadline_s == headquarters.now_s + 20
    assert len(headquarters.state.migrations) == 1


def test_of_a_deadline_in_the_past_nobody_guesses_what_the_agent_made_of_it() -> None:
    headquarters = a_running_job()
    decision = headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s - 5))
    assert whys(decision, "job") == [Why.OWNER_TOOK_NODE]
    assert whys(headquarters.ended("job-e1", EndReason.DEADLINE), "job") == [Why.FELL_BACK, Why.WAITING]


def test_a_word_that_was_a_second_on_its_way_is_not_told_as_an_outage() -> None:
    headquarters = a_running_job()
    decision = headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s - 1.0))
    assert whys(decision, "job") == [Why.OWNER_WANTS_NODE]


def test_on_the_wire_a_reclaim_loses_nothing_and_frees_the_machine_at_once() -> None:
    campus = a_campus()
    campus.submits("job", a_spec(expected_s=100))
    campus.advance(30)
    source = campus.machine_of()
    source.owner(OwnerReclaimed(notice_s=30))
    assert source.station.engine.state.holding.tenure is Tenure.RECLAIMED
    assert campus.machine_of() is not source
    campus.advance(71)
    assert campus.job().phase is JobPhase.SUCCEEDED
    assert [m.steps_redone for m in campus.station.engine.state.migrations.values()] == [0]


def test_on_the_wire_a_save_that_takes_too_long_is_cut_at_the_deadline() -> None:
    campus = a_campus()
    campus.submits("job", a_spec(expected_s=100))
    campus.advance(30)
    source = campus.machine_of()
    source.ships = False
    source.owner(OwnerReclaimed(notice_s=20))
    campus.advance(19.9)
    assert source.shipping != {}
    campus.advance(0.2)
    assert source.shipping == {}
    assert source.station.engine.state.holding.tenure is Tenure.RECLAIMED
    assert Why.FELL_BACK in campus.whys("job")
    campus.advance(300)
    assert campus.job().phase is JobPhase.SUCCEEDED


def test_on_the_wire_a_program_that_never_answers_is_ended_at_the_deadline() -> None:
    campus = a_campus()
    campus.submits("job", a_spec(expected_s=100))
    campus.advance(30)
    source = campus.machine_of()
    source.answers = False
    source.owner(OwnerReclaimed(notice_s=20))
    campus.advance(19)
    assert len(source.living()) == 1
    campus.advance(1)
    assert source.living() == []
    campus.advance(200)
    assert campus.job().phase is JobPhase.SUCCEEDED


def test_on_the_wire_a_kill_is_obeyed_with_the_coordinator_dead() -> None:
    campus = a_campus()
    campus.submits("job", a_spec(expected_s=100))
    campus.advance(5)
    source = campus.machine_of()
    campus.falls()
    source.owner(OwnerKilled())
    assert source.living() == []
    campus.advance(3)
    campus.rises()
    campus.advance(200)
    assert campus.job().phase is JobPhase.SUCCEEDED
    assert Why.OWNER_KILLED in campus.whys("job")


def test_on_the_wire_an_agent_saves_by_itself_when_the_coordinator_is_away() -> None:
    campus = a_campus()
    campus.submits("job", a_spec(expected_s=100))
    campus.advance(20)
    source = campus.machine_of()
    campus.falls()
    campus.advance(6)
    source.owner(OwnerReclaimed(notice_s=30))
    campus.advance(3)
    assert source.living() == []
    assert campus.vault.sealed[campus.job().id] != []
    campus.advance(5)
    campus.rises()
    campus.advance(200)
    assert campus.job().phase is JobPhase.SUCCEEDED
    assert [m.steps_redone for m in campus.station.engine.state.migrations.values()] == [0]


def test_on_the_wire_an_owner_who_resumes_is_lent_from_again() -> None:
    campus = a_campus(["alpha"])
    machine = campus.machines[NodeId("alpha")]
    machine.owner(OwnerReclaimed(notice_s=30))
    campus.submits("job", a_spec(expected_s=50))
    assert campus.job().phase is JobPhase.PENDING
    machine.owner(OwnerResumed())
    campus.advance(60)
    assert campus.job().phase is JobPhase.SUCCEEDED


def test_a_pause_and_a_resume_leave_guests_alone() -> None:
    headquarters = a_running_job()
    headquarters.reported("alpha", NodePaused())
    assert whys(headquarters.reported("alpha", NodeResumed())) == [Why.NODE_BACK]
    assert (headquarters.job().phase, headquarters.job().epoch) == (JobPhase.RUNNING, 1)


def test_only_last_saves_of_the_same_node_count_against_its_uplink() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=2))
    headquarters.joins("beta", facts(gpus=2))
    for job in ("one", "two", "three"):
        headquarters.submits(job)
        headquarters.started(f"{job}-e1")
    by_node: dict[str, list[str]] = {"alpha": [], "beta": []}
    for job in ("one", "two", "three"):
        by_node[headquarters.run(f"{job}-e1").node_id].append(job)
    crowded = max(by_node, key=lambda node: len(by_node[node]))
    quiet = min(by_node, key=lambda node: len(by_node[node]))
    headquarters.fires(f"checkpoint:{by_node[crowded][0]}-e1")
    headquarters.reported(quiet, NoticeGiven(deadline_s=headquarters.now_s + 60))
    decision = headquarters.reported(crowded, NoticeGiven(deadline_s=headquarters.now_s + 60))
    rates = [order.rate_bps for _, order in orders(decision) if isinstance(order, TakeCheckpoint)]
    assert sum(rates) == pytest.approx(reclaim_cap_bps(GIGABIT_BPS))


def test_a_last_save_given_up_for_good_is_called_off_when_the_job_goes_on() -> None:
    headquarters, node = two_nodes()
    headquarters.captured("job-e1-c1", step=7)
    headquarters.ended("job-e1", EndReason.SAVED)
    decision = headquarters.fires("flush:job-m1")
    assert [(where, type(order).__name__) for where, order in orders(decision)] == [
        (node, "StopRun"),
        (headquarters.run("job-e2").node_id, "StartRun"),
    ]


def test_a_state_that_stalled_nobody_teaches_nothing_about_stalls() -> None:
    headquarters = a_running_job()
    stall_s = headquarters.job().cost.stall_s
    headquarters.captured("job-e1-a1", step=7, stall_s=0.0)
    assert headquarters.job().cost.stall_s == stall_s


def test_a_program_that_saves_beside_its_work_needs_the_whole_save_in_a_notice_not_only_its_stall() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    run = headquarters.run()
    headquarters.fires(f"checkpoint:{run.id}")
    headquarters.reported(
        run.node_id,
        CheckpointCaptured(
            run_id=run.id,
            job_id=run.job_id,
            epoch=run.epoch,
            checkpoint_id=checkpoint_id(run.id, 1),
            step=10,
            progress=0.01,
            stall_s=0.1,
            capture_s=40.0,
        ),
    )
    headquarters.durable(f"{run.id}-c1", step=10)
    assert (headquarters.job().cost.stall_s, headquarters.job().cost.save_s) == (0.1, 40.0)
    decision = headquarters.reported(run.node_id, NoticeGiven(deadline_s=headquarters.now_s + 30))
    assert Why.NOTICE_TOO_SHORT in whys(decision)
