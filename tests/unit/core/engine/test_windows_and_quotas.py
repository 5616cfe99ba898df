"""Whoever begins in a window holds GPUs like everybody else: quotas count them."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.jobs.account import Quota
from gpunion.domain.jobs.job import JobPhase, Priority
from gpunion.domain.protocol.events import QuotaSet
from gpunion.domain.protocol.reports import NodePaused, NodeResumed
from gpunion.domain.reasons.reason import Why
from tests.builders.turns import ANY_LENGTH, LEAST_S, Turns, of
from tests.builders.values import facts

JOBS = ("j1", "j2", "j3")


def may_hold(campus: Turns, user: str, gpus: int) -> None:
    campus.hears(QuotaSet(quota=Quota(id=f"user:{user}", gpus=gpus, by="op", set_s=campus.now_s)))


def begun(campus: Turns, jobs: tuple[str, ...] = JOBS) -> list[str]:
    return [job for job in jobs if campus.job(job).phase is not JobPhase.PENDING]


def three_gaps(campus: Turns) -> None:
    campus.joins("m", facts(gpus=3))
    campus.ends_in("m", 110.0)


def test_a_user_begins_in_no_more_gaps_than_their_quota_lets_them() -> None:
    campus = Turns()
    may_hold(campus, "sam", 0)
    three_gaps(campus)
    for job in JOBS:
        campus.submits(job, of("sam", wish=ANY_LENGTH))
    campus.submits("other", of("ann", wish=ANY_LENGTH))
    assert begun(campus) == []
    may_hold(campus, "sam", 1)
    assert len(begun(campus)) == 1
    assert campus.state.memories.accounts["user:sam"].held_gpus == 1


def test_what_a_user_may_not_have_of_the_gaps_others_get_at_once() -> None:
    campus = Turns()
    three_gaps(campus)
    campus.reported("m", NodePaused())
    may_hold(campus, "sam", 1)
    for job in JOBS:
        campus.submits(job, of("sam", wish=ANY_LENGTH))
    for job in ("ann1", "bob1"):
        campus.submits(job, of(job[:3], wish=ANY_LENGTH))
    campus.reported("m", NodeResumed())
    assert len(begun(campus)) == 1
    assert begun(campus, ("ann1", "bob1")) == ["ann1", "bob1"]


def test_class_high_is_rationed_in_gaps_as_well() -> None:
    campus = Turns()
    three_gaps(campus)
    campus.reported("m", NodePaused())
    campus.engine.policies = replace(campus.engine.policies, high_gpus_a_user=1)
    for job in JOBS:
        campus.submits(job, of("sam", priority=Priority.HIGH, wish=ANY_LENGTH))
    campus.reported("m", NodeResumed())
    assert len(begun(campus)) == 1


def test_two_who_begin_in_gaps_of_one_machine_share_its_memory() -> None:
    campus = Turns()
    campus.joins("m", facts(gpus=2, memory_gib=64))
    campus.ends_in("m", 110.0)
    campus.reported("m", NodePaused())
    for job in ("ann1", "bob1"):
        campus.submits(job, of(job[:3], memory_gib=40.0, wish=ANY_LENGTH))
    campus.reported("m", NodeResumed())
    assert len(begun(campus, ("ann1", "bob1"))) == 1


def three_tenants(campus: Turns) -> None:
    campus.joins("m", facts(gpus=3))
    for job in ("b1", "b2", "b3"):
        campus.runs(job, of("bob"))


def test_a_user_is_promised_no_more_turns_than_their_quota_lets_them_begin() -> None:
    campus = Turns()
    three_tenants(campus)
    may_hold(campus, "sam", 1)
    for job in JOBS:
        campus.submits(job, of("sam"))
    campus.looks_until(campus.now_s + 3 * LEAST_S)
    assert len(campus.promised()) == 1
    assert campus.running() == {"b1", "b2", "b3"}


def test_a_turn_that_a_quota_keeps_from_one_user_goes_to_the_next_who_waits() -> None:
    campus = Turns()
    three_tenants(campus)
    may_hold(campus, "sam", 1)
    for job in JOBS:
        campus.submits(job, of("sam"))
    for job in ("ann1", "eve1"):
        campus.submits(job, of(job[:3]))
    campus.looks_until(campus.now_s + 3 * LEAST_S)
    assert campus.promised().keys() >= {"ann1", "eve1"}
    assert len(campus.promised()) == 3


def test_wide_jobs_are_promised_no_more_than_their_users_quota() -> None:
    campus = Turns()
    for node in ("a", "b"):
        campus.joins(node, facts(gpus=2))
    for job in ("b1", "b2", "b3", "b4"):
        campus.runs(job, of("bob"))
    may_hold(campus, "sam", 3)
    for job in ("w1", "w2"):
        campus.later(5.0).submits(job, of("sam", gpus=2, in_windows=False))
    assert len(campus.promised()) == 1


def test_a_promise_that_a_quota_holds_back_is_given_up_at_once() -> None:
    campus = Turns()
    three_tenants(campus)
    campus.later(5.0).submits("wide", of("sam", gpus=3, in_windows=False))
    assert campus.promised().keys() == {"wide"}
    may_hold(campus.later(5.0), "sam", 2)
    assert campus.promised() == {}
    assert [reason.why for _, reason in campus.told[-3:]].count(Why.QUOTA_TOO_SMALL) == 1
