"""What an owner says of a machine, says again, takes back, or said long ago."""

from __future__ import annotations

import pytest

from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.migration import MigrationPhase
from gpunion.domain.jobs.run import EndReason, RunPhase
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.protocol.orders import TakeCheckpoint
from gpunion.domain.protocol.reports import NodeLeft, NodePaused, NodeReclaimed, NodeResumed, NoticeGiven
from gpunion.domain.reasons.reason import Why
from tests.builders import TIMING, Headquarters, a_running_job, orders, timers_of, whys
from tests.builders.reclaims import migration, two_nodes


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
    assert headquarters.timer_at("checkpoint:job-e1") is not None


def test_an_owner_who_changes_their_mind_after_the_save_failed_keeps_the_guest() -> None:
    headquarters, node = two_nodes()
    headquarters.not_saved("job-e1-c1")
    headquarters.reported(node, NodeResumed())
    assert (headquarters.job().phase, headquarters.run().phase) == (JobPhase.RUNNING, RunPhase.RUNNING)
    assert migration(headquarters).phase is MigrationPhase.ABANDONED
    assert headquarters.timer_at("checkpoint:job-e1") is not None
    again = headquarters.reported(node, NoticeGiven(deadline_s=headquarters.now_s + 60))
    assert [type(order) for _, order in orders(again)] == [TakeCheckpoint]


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


def test_a_pause_and_a_resume_leave_guests_alone() -> None:
    headquarters = a_running_job()
    headquarters.reported("alpha", NodePaused())
    assert whys(headquarters.reported("alpha", NodeResumed())) == [Why.NODE_BACK]
    assert (headquarters.job().phase, headquarters.job().epoch) == (JobPhase.RUNNING, 1)
