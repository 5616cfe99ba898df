"""A job that was driven from a better place goes back when that pays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.migration import Cause, MigrationPhase
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.events import OwnerReclaimed, OwnerResumed, TimerFired
from gpunion.domain.protocol.orders import TakeCheckpoint
from gpunion.domain.protocol.reports import NodeReclaimed, NodeResumed, NoticeGiven
from gpunion.domain.protocol.timers import ReplanDue
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.runs import migrations as moving
from gpunion.policy.bandwidth import reclaim_cap_bps
from gpunion.policy.homecoming import Never
from gpunion.policy.policies import BASELINE
from tests.builders import (
    GIGABIT_BPS,
    TIMING,
    Campus,
    Headquarters,
    a_spec,
    facts,
    orders,
    timers_of,
    whys,
)

FAST = facts(speed=4.0)
SLOW = facts(speed=1.0)


def a_job_away(expected_s: float | None = 10_000, **more: object) -> Headquarters:
    """Driven from the fast node `home` to the slow node `away`, where it runs as epoch 2."""
    headquarters = Headquarters(policies=replace(BASELINE, **more))  # type: ignore[arg-type]
    headquarters.joins("home", FAST)
    headquarters.submits("job", a_spec(expected_s=expected_s))
    headquarters.started("job-e1")
    headquarters.joins("away", SLOW)
    headquarters.reported("home", NodeReclaimed(freed_after_s=0, killed=True))
    headquarters.ended("job-e1", EndReason.KILLED_BY_OWNER)
    headquarters.later(1).started("job-e2")
    return headquarters


def test_a_job_goes_home_when_the_owner_lends_the_node_again_and_it_pays() -> None:
    headquarters = a_job_away()
    decision = headquarters.reported("home", NodeResumed())
    assert whys(decision, "job") == [Why.GOING_HOME]
    [(node, order)] = orders(decision)
    assert node == "away"
    assert isinstance(order, TakeCheckpoint)
    assert (order.final, order.by_s, order.rate_bps) == (True, None, reclaim_cap_bps(GIGABIT_BPS))
    migration = headquarters.state.migrations[headquarters.job().migration]  # type: ignore[index]
    assert (migration.cause, migration.destination) == (Cause.HOMECOMING, "home")
    assert migration.reserved_gpus == (0,)
    sent_s = moving.sent_within_s(headquarters.job(), order.rate_bps)
    assert timers_of(decision)["flush:job-m2"] == headquarters.now_s + TIMING.save_timeout_s + sent_s
    headquarters.durable("job-e2-c1", step=50, final=True)
    headquarters.ended("job-e2", EndReason.SAVED)
    assert headquarters.run("job-e3").node_id == "home"


def test_a_job_that_is_nearly_done_stays_where_it_is() -> None:
    headquarters = a_job_away(expected_s=10)
    assert whys(headquarters.reported("home", NodeResumed())) == [Why.NODE_BACK]
    assert headquarters.job().phase is JobPhase.RUNNING


def test_a_job_that_grows_worth_moving_is_found_by_the_regular_look() -> None:
    headquarters = a_job_away(expected_s=None)
    headquarters.reported("home", NodeResumed())
    assert headquarters.job().phase is JobPhase.RUNNING
    headquarters.later(100)
    headquarters.engine.note_progress(headquarters.run("job-e2").id, 100, 0.001)
    decision = headquarters.hears(TimerFired(timer=ReplanDue()))
    assert Why.GOING_HOME in whys(decision)


def test_without_a_guess_and_without_progress_nobody_knows_whether_it_pays() -> None:
    headquarters = a_job_away(expected_s=None)
    headquarters.reported("home", NodeResumed())
    headquarters.engine.note_progress(headquarters.run("job-e2").id, 0, 0.5)
    assert headquarters.later(100).fires("replan").changes == ()


def test_what_is_durable_counts_as_done() -> None:
    headquarters = a_job_away(expected_s=100)
    headquarters.fires("checkpoint:job-e2")
    headquarters.durable("job-e2-c1", step=990)
    assert whys(headquarters.reported("home", NodeResumed())) == [Why.NODE_BACK]


def test_a_home_that_is_full_is_not_gone_to() -> None:
    headquarters = a_job_away()
    headquarters.reported("away", NoticeGiven(deadline_s=headquarters.now_s + 0.5))
    headquarters.submits("other")
    headquarters.reported("home", NodeResumed())
    assert headquarters.run("other-e1").node_id == "home"
    assert Why.GOING_HOME not in [reason.why for _, reason in headquarters.told]


def test_a_home_that_never_came_back_is_not_gone_to() -> None:
    headquarters = a_job_away()
    assert headquarters.fires("replan").changes == ()
    assert headquarters.timer_at("replan") is not None


def test_where_the_policy_says_never_nobody_goes_home() -> None:
    headquarters = a_job_away(homecoming=Never())
    assert whys(headquarters.reported("home", NodeResumed())) == [Why.NODE_BACK]


def test_a_busy_uplink_keeps_a_job_away_until_the_next_look() -> None:
    headquarters = Headquarters()
    headquarters.joins("home", facts(gpus=2, speed=4.0))
    for job in ("one", "two"):
        headquarters.submits(job, a_spec(expected_s=10_000))
        headquarters.started(f"{job}-e1")
    headquarters.joins("away", facts(gpus=2))
    headquarters.reported("home", NodeReclaimed(freed_after_s=0, killed=True))
    for job in ("one", "two"):
        headquarters.ended(f"{job}-e1", EndReason.KILLED_BY_OWNER)
        headquarters.later(1).started(f"{job}-e2")
    decision = headquarters.reported("home", NodeResumed())
    assert [reason.subject for reason in decision.reasons if reason.why is Why.GOING_HOME] == ["one"]
    assert headquarters.job("two").phase is JobPhase.RUNNING
    headquarters.durable("one-e2-c1", step=5, final=True)
    decision = headquarters.ended("one-e2", EndReason.SAVED)
    assert [reason.subject for reason in decision.reasons if reason.why is Why.GOING_HOME] == ["two"]


def test_a_last_save_that_fails_on_the_way_home_lets_the_job_stay_until_a_save_has_worked() -> None:
    headquarters = a_job_away()
    headquarters.reported("home", NodeResumed())
    headquarters.not_saved("job-e2-c1")
    assert headquarters.job().phase is JobPhase.RUNNING
    _, homeward = headquarters.state.migrations.values()
    assert homeward.phase is MigrationPhase.ABANDONED
    assert headquarters.timer_at("checkpoint:job-e2") is not None
    for _ in range(3):
        assert Why.GOING_HOME not in whys(headquarters.fires("replan"))
    headquarters.fires("checkpoint:job-e2")
    assert Why.GOING_HOME not in whys(headquarters.fires("replan"))  # it is asked, and has not answered
    headquarters.durable("job-e2-c2", step=50)
    assert Why.GOING_HOME in whys(headquarters.fires("replan"))


def test_a_save_that_was_given_up_because_its_guest_was_parked_keeps_nobody_from_going_home() -> None:
    headquarters = a_job_away()
    headquarters.fires("checkpoint:job-e2")
    headquarters.not_saved("job-e2-c1", CheckpointTrouble.PARKED)
    assert Why.GOING_HOME in whys(headquarters.reported("home", NodeResumed()))


def test_a_home_that_is_wanted_back_on_the_way_is_no_special_case() -> None:
    headquarters = a_job_away()
    headquarters.reported("home", NodeResumed())
    headquarters.reported("home", NoticeGiven(deadline_s=headquarters.now_s + 60))
    headquarters.durable("job-e2-c1", step=50, final=True)
    headquarters.ended("job-e2", EndReason.SAVED)
    assert headquarters.run("job-e3").node_id == "away"


def test_a_job_that_never_moved_is_at_home() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", SLOW)
    headquarters.submits("job", a_spec(expected_s=10_000))
    headquarters.started("job-e1")
    assert whys(headquarters.joins("beta", FAST)) == [Why.NODE_JOINED]


@pytest.mark.parametrize("cut_off", [False, True])
def test_on_the_wire_a_job_goes_away_comes_home_and_finishes(cut_off: bool) -> None:
    campus = Campus()
    campus.adds("home", FAST)
    campus.submits("job", a_spec(expected_s=3000))
    campus.adds("away", SLOW)
    campus.advance(10)
    home = campus.machines[NodeId("home")]
    home.owner(OwnerReclaimed(notice_s=30))
    assert campus.machine_of().node_id == "away"
    campus.advance(100)
    home.owner(OwnerResumed())
    home.linked = not cut_off
    campus.advance(20)
    home.linked = True
    campus.advance(3500)
    assert campus.job().phase is JobPhase.SUCCEEDED
    assert all(m.steps_redone == 0 for m in campus.station.engine.state.migrations.values())
