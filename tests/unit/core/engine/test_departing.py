"""Guests of a wanted machine leave one after another, and those of its owner's other machines save sooner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.jobs.job import CheckpointWish, JobPhase
from gpunion.domain.jobs.run import EndReason, RunPhase
from gpunion.domain.protocol.orders import TakeCheckpoint
from gpunion.domain.protocol.reports import NodeReclaimed, NodeResumed, NoticeGiven
from gpunion.domain.reasons.reason import Why
from gpunion.policy.checkpoint_timing.same_owner_alarm import BURSTS
from gpunion.policy.policies import BASELINE
from tests.builders import TIMING, Headquarters, a_spec, facts, orders, whys

PATIENT = replace(BASELINE, takes_turns=True)


def saves(decision: object) -> list[str]:
    return [order.run_id for _, order in orders(decision) if isinstance(order, TakeCheckpoint)]  # type: ignore[arg-type]


def two_guests(*, spare: bool) -> Headquarters:
    """`a` and `b` run on the two GPUs of `alpha`; `beta` has two more, if there is one."""
    headquarters = Headquarters(policies=PATIENT)
    headquarters.joins("alpha", facts(gpus=2))
    for job in ("a", "b"):
        headquarters.submits(job)
        headquarters.started(f"{job}-e1")
    if spare:
        headquarters.joins("beta", facts(gpus=2))
    return headquarters.later(100.0)


def wanted(headquarters: Headquarters, notice_s: float = 300.0) -> list[str]:
    deadline_s = headquarters.now_s + notice_s
    return saves(headquarters.reported("alpha", NoticeGiven(deadline_s=deadline_s)))


def test_one_leaves_and_the_other_works_on_until_the_first_has_been_sent() -> None:
    headquarters = two_guests(spare=True)
    [first] = wanted(headquarters)
    other = "b-e1" if first == "a-e1" else "a-e1"
    assert headquarters.run(other).phase is RunPhase.RUNNING
    headquarters.later(2.0).captured(f"{first}-c1", step=100)
    headquarters.ended(first, EndReason.SAVED, step=100)
    assert headquarters.run(other).phase is RunPhase.RUNNING
    assert saves(headquarters.later(2.0).durable(f"{first}-c1", step=100, final=True)) == [other]


def test_who_has_nowhere_to_go_works_on_until_the_last_moment() -> None:
    headquarters = two_guests(spare=False)
    deadline_s = headquarters.now_s + 300.0
    assert wanted(headquarters) == []
    at_s = headquarters.timer_at("leave:alpha")
    assert at_s is not None
    assert deadline_s - 60.0 < at_s < deadline_s - 5.0
    asked: list[str] = []
    for _ in range(4):  # the guard at the end is a share of what is left, so the moment moves a little
        asked = asked or saves(headquarters.fires("leave:alpha"))
    assert len(asked) == 1
    assert headquarters.now_s < deadline_s - 5.0


def test_who_has_nowhere_to_go_is_told_at_once_and_only_once_for_each_deadline() -> None:
    headquarters = two_guests(spare=False)
    first = NoticeGiven(deadline_s=headquarters.now_s + 300.0)
    decision = headquarters.reported("alpha", first)
    assert whys(decision, "a") == whys(decision, "b") == [Why.OWNER_WANTS_NODE, Why.WORKS_ON_TO_THE_END]
    owner_wants, works_on = [reason for reason in decision.reasons if reason.subject == "a"]
    assert owner_wants.sentence() == "the owner of alpha wants it back in 5 min"
    assert dict(works_on.facts)["works_s"] == pytest.approx(270.0, abs=30.0)
    assert whys(headquarters.later(1.0).submits("other"), "a") == []
    sooner = NoticeGiven(deadline_s=headquarters.now_s + 200.0)
    assert whys(headquarters.reported("alpha", sooner), "a") == [
        Why.OWNER_WANTS_NODE,
        Why.WORKS_ON_TO_THE_END,
    ]
    asked: list[str] = []
    for _ in range(4):
        decision = headquarters.fires("leave:alpha")
        asked = saves(decision)
        if asked:
            break
    assert whys(decision, asked[0].removesuffix("-e1")) == [Why.FLUSH_FITS]


def test_who_waits_for_its_turn_is_told_and_told_again_when_the_owner_thinks_better_of_it() -> None:
    headquarters = two_guests(spare=True)
    notice = NoticeGiven(deadline_s=headquarters.now_s + 300.0)
    decision = headquarters.reported("alpha", notice)
    other = "b" if saves(decision) == ["a-e1"] else "a"
    assert whys(decision, other) == [Why.OWNER_WANTS_NODE, Why.LEAVES_IN_TURN]
    assert whys(headquarters.later(1.0).reported("alpha", NodeResumed()), other) == [Why.MAY_STAY]


def test_who_has_been_saved_and_finds_no_place_is_told_that_it_waits() -> None:
    headquarters = Headquarters(policies=PATIENT)
    headquarters.joins("alpha")
    headquarters.submits("a")
    headquarters.started("a-e1")
    wanted(headquarters.later(100.0))
    while not headquarters.run("a-e1").checkpoints:
        headquarters.fires("leave:alpha")
    headquarters.captured("a-e1-c1", step=100)
    assert whys(headquarters.later(0.5).ended("a-e1", EndReason.SAVED, step=100), "a") == []
    decision = headquarters.later(0.5).durable("a-e1-c1", step=100, final=True)
    assert whys(decision, "a") == [Why.SAVED, Why.WAITING]
    assert whys(headquarters.later(1.0).submits("b"), "a") == []


def test_who_reads_the_notice_and_saves_itself_sooner_went_for_the_owner() -> None:
    headquarters = two_guests(spare=False)
    wanted(headquarters)
    decision = headquarters.later(5.0).ended("a-e1", EndReason.SAVED, saved_for=EndReason.DEADLINE)
    assert whys(decision, "a") == [Why.SAVED_FOR_OWNER, Why.WAITING]


def test_a_place_that_comes_free_is_taken_at_once() -> None:
    headquarters = two_guests(spare=False)
    wanted(headquarters)
    decision = headquarters.later(10.0).joins("beta", facts(gpus=1))
    assert len(saves(decision)) == 1
    [move] = [m for m in headquarters.state.migrations.values() if m.destination == "beta"]
    assert move.reserved_gpus == (0,)


def test_whoever_stands_still_already_goes_first() -> None:
    headquarters = two_guests(spare=False)
    headquarters.joins("gamma", facts(gpus=1))
    headquarters.submits("c")
    headquarters.started("c-e1")
    wanted(headquarters)
    headquarters.reported("gamma", NodeReclaimed(freed_after_s=0, killed=True))
    headquarters.ended("c-e1", EndReason.KILLED_BY_OWNER)
    assert saves(headquarters.joins("beta", facts(gpus=1))) == []
    assert headquarters.job("c").phase is JobPhase.STARTING
    assert headquarters.run("c-e2").node_id == "beta"


def test_a_short_notice_leaves_no_time_for_turns() -> None:
    assert wanted(two_guests(spare=True), notice_s=9.0) == ["a-e1", "b-e1"]


def test_a_big_last_save_on_its_way_home_is_waited_for() -> None:
    """It was given up after 150 s once, with two thirds of 12 GB sent: all it held was done again."""
    headquarters = Headquarters()
    headquarters.joins("home", facts(speed=4.0))
    headquarters.submits("job", a_spec(expected_s=50_000))
    headquarters.started("job-e1")
    headquarters.joins("away", facts(speed=1.0))
    headquarters.reported("home", NodeReclaimed(freed_after_s=0, killed=True))
    headquarters.ended("job-e1", EndReason.KILLED_BY_OWNER)
    headquarters.started("job-e2")
    headquarters.fires("checkpoint:job-e2")
    headquarters.captured("job-e2-c1", step=10)
    headquarters.durable("job-e2-c1", step=10, shipped_bytes=12 * 10**9)
    headquarters.joins("home", facts(speed=4.0), incarnation="second")
    at_s = headquarters.timer_at("flush:job-m2")
    assert at_s is not None
    sending_s = 8 * 12e9 / 0.5e9
    assert at_s - headquarters.now_s > TIMING.save_timeout_s + sending_s


def test_guests_of_the_owners_other_machines_save_sooner() -> None:
    headquarters = Headquarters(policies=replace(BASELINE, alarm=BURSTS))
    for node, lab in (("alpha", "vision"), ("beta", "vision"), ("gamma", "sound")):
        headquarters.joins(node, replace(facts(), lab=lab))
        headquarters.submits(f"on-{node}")
        headquarters.started(f"on-{node}-e1")
    planned = {node: headquarters.timer_at(f"checkpoint:on-{node}-e1") for node in ("beta", "gamma")}
    began_s = headquarters.now_s
    headquarters.later(1.0).reported("alpha", NodeReclaimed(freed_after_s=0, killed=True))
    assert planned["beta"] is not None
    assert headquarters.timer_at("checkpoint:on-beta-e1") == began_s + (planned["beta"] - began_s) / 2
    assert headquarters.timer_at("checkpoint:on-gamma-e1") == planned["gamma"]


def test_an_owner_who_comes_makes_nobody_save_more_often_than_its_user_wants() -> None:
    headquarters = Headquarters(policies=replace(BASELINE, alarm=BURSTS))
    seldom = replace(a_spec(), checkpoint=CheckpointWish(min_interval_s=3600.0))
    for node in ("alpha", "beta"):
        headquarters.joins(node, replace(facts(), lab="vision"))
        headquarters.submits(f"on-{node}", seldom)
        headquarters.started(f"on-{node}-e1")
    planned_s = headquarters.timer_at("checkpoint:on-beta-e1")
    assert planned_s == headquarters.now_s + 3600.0
    headquarters.later(1.0).reported("alpha", NodeReclaimed(freed_after_s=0, killed=True))
    assert headquarters.timer_at("checkpoint:on-beta-e1") == planned_s
