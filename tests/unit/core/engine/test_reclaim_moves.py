"""Where a job goes whose node is wanted back, also when its last save or its new place fails it."""

from __future__ import annotations

from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.migration import MigrationPhase
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.effects import SetTimer
from gpunion.domain.protocol.events import TimerFired
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.protocol.reports import NoticeGiven
from gpunion.domain.protocol.timers import coordinator_timer
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import MIB
from gpunion.engine.coordinator.runs.migrations import FLUSH_GUARD_S
from tests.builders import orders, whys
from tests.builders.reclaims import migration, two_nodes


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
    assert decision.effects == (
        SetTimer(timer=coordinator_timer("flush:job-m1"), at_s=headquarters.now_s + FLUSH_GUARD_S),
    )


def test_an_overdue_timer_of_a_move_that_went_on_says_nothing() -> None:
    headquarters, _ = two_nodes()
    headquarters.durable("job-e1-c1", step=5, final=True)
    headquarters.ended("job-e1", EndReason.SAVED)
    assert headquarters.hears(TimerFired(timer=coordinator_timer("flush:job-m1"))).empty
    assert headquarters.hears(TimerFired(timer=coordinator_timer("flush:nothing"))).empty


def test_a_last_save_given_up_for_good_is_called_off_when_the_job_goes_on() -> None:
    headquarters, node = two_nodes()
    headquarters.captured("job-e1-c1", step=7)
    headquarters.ended("job-e1", EndReason.SAVED)
    decision = headquarters.fires("flush:job-m1")
    assert [(where, type(order).__name__) for where, order in orders(decision)] == [
        (node, "StopRun"),
        (headquarters.run("job-e2").node_id, "StartRun"),
    ]
