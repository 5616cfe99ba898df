"""Whole gangs make room and are made room for, and go home."""

from __future__ import annotations

from gpunion.domain.ids import CheckpointId
from gpunion.domain.jobs.job import Priority
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.events import TimerFired
from gpunion.domain.protocol.orders import StartRun, TakeCheckpoint
from gpunion.domain.protocol.reports import NodeReclaimed, NodeResumed
from gpunion.domain.protocol.timers import ReplanDue
from gpunion.domain.resources import Request
from gpunion.policy.policies import LIVE
from tests.builders import Headquarters, a_spec, facts, orders
from tests.builders.gangs import RUNS, a_gang_spec, of_kind


def test_lower_classes_make_room_for_all_members_of_a_gang_and_nobody_takes_it_meanwhile() -> None:
    headquarters = Headquarters(policies=LIVE)
    for number, node in enumerate(("alpha", "beta")):
        headquarters.joins(node)
        headquarters.submits(f"low-{number}", a_spec(priority=Priority.LOW))
        headquarters.started(f"low-{number}-e1")
    asked = of_kind(headquarters.submits("job", a_gang_spec(priority=Priority.HIGH)), TakeCheckpoint)
    headquarters.submits("other", a_spec(priority=Priority.NORMAL))
    assert asked.keys() == {"low-0-e1", "low-1-e1"}
    headquarters.durable("low-0-e1-c1", step=9, final=True)
    assert of_kind(headquarters.ended("low-0-e1", EndReason.SAVED, step=9), StartRun) == {}
    headquarters.durable("low-1-e1-c1", step=9, final=True)
    started = of_kind(headquarters.ended("low-1-e1", EndReason.SAVED, step=9), StartRun)
    assert started.keys() == set(RUNS)


def test_nobody_makes_room_for_a_part_of_a_gang() -> None:
    headquarters = Headquarters(policies=LIVE)
    for node, priority in (("alpha", Priority.LOW), ("beta", Priority.HIGH)):
        headquarters.joins(node)
        headquarters.submits(f"on-{node}", a_spec(priority=priority))
        headquarters.started(f"on-{node}-e1")
    headquarters.submits("job", a_gang_spec(priority=Priority.HIGH))
    headquarters.later(4000)
    assert orders(headquarters.hears(TimerFired(timer=ReplanDue()))) == []


def test_a_gang_is_driven_out_whole_by_a_higher_class() -> None:
    headquarters = Headquarters(policies=LIVE)
    for node in ("alpha", "beta"):
        headquarters.joins(node)
    headquarters.submits("job", a_gang_spec(priority=Priority.LOW))
    for run in RUNS:
        headquarters.started(run)
    decision = headquarters.later(1000).submits("urgent", a_spec(priority=Priority.HIGH))
    assert of_kind(decision, TakeCheckpoint).keys() == set(RUNS)
    assert "it makes room for a job of a higher class" in str(headquarters.told)


def a_gang_away() -> Headquarters:
    """Both members were driven from the fast `home`, which had room for both, to slow machines."""
    headquarters = Headquarters()
    headquarters.joins("home", facts(gpus=2, speed=4.0))
    headquarters.submits("job", a_gang_spec(expected_s=50_000))
    for run in RUNS:
        headquarters.started(run)
    for node in ("away", "away-too"):
        headquarters.joins(node, facts(speed=1.0))
    headquarters.reported("home", NodeReclaimed(freed_after_s=0, killed=True))
    headquarters.ended("job-e1", EndReason.KILLED_BY_OWNER)
    headquarters.ended("job-r1-e1", EndReason.KILLED_BY_OWNER)
    for run in ("job-e2", "job-r1-e2"):
        headquarters.later(1).started(run)
    return headquarters


def test_a_gang_goes_home_whole_when_that_pays() -> None:
    headquarters = a_gang_away()
    decision = headquarters.reported("home", NodeResumed())
    saves = of_kind(decision, TakeCheckpoint)
    assert saves.keys() == {"job-e2", "job-r1-e2"}
    assert len({order.at_step for order in saves.values()}) == 1
    for run in saves:
        headquarters.durable(f"{run}-c1", step=9, final=True)
        headquarters.ended(run, EndReason.SAVED, step=9)
    assert {headquarters.run(run).node_id for run in ("job-e3", "job-r1-e3")} == {"home"}


def test_a_gang_stays_where_it_is_while_one_home_is_taken() -> None:
    headquarters = a_gang_away()
    headquarters.submits("wide", a_spec(request=Request(gpus=1)))
    decision = headquarters.reported("home", NodeResumed())
    assert of_kind(decision, TakeCheckpoint) == {}
    assert CheckpointId("job-e2-c1") not in headquarters.state.checkpoints
