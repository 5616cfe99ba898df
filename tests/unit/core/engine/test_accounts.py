"""Whose turn it is on a busy campus: shares, credit, quotas, deadlines, and what people are told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.ids import JobId
from gpunion.domain.jobs.account import Quota
from gpunion.domain.jobs.gang import Seat
from gpunion.domain.jobs.job import JobPhase, JobSpec, Priority
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.events import QuotaSet, TimerFired
from gpunion.domain.protocol.reports import NodeReclaimed, NodeResumed, NoticeGiven
from gpunion.domain.protocol.timers import LessonDue
from gpunion.domain.reasons.reason import Why
from gpunion.policy.ordering import PATIENCE_S
from gpunion.policy.policies import LIVE
from tests.builders import Headquarters, a_job, a_spec, a_view, facts, whys

HOUR_S = 3600.0


def a_campus(*labs: str, gpus: int = 1) -> Headquarters:
    headquarters = Headquarters(policies=LIVE, now_s=0.0)
    for lab in labs:
        headquarters.joins(lab, facts(gpus=gpus, lab=lab))
    return headquarters


def of(user: str, lab: str = "", **more: object) -> JobSpec:
    return replace(a_spec(lab=lab), owner=user, **more)  # type: ignore[arg-type]


def finishes(headquarters: Headquarters, job: str) -> None:
    headquarters.started(f"{job}-e1")
    headquarters.later(HOUR_S).ended(f"{job}-e1", EndReason.FINISHED, exit_code=0)


def holders(headquarters: Headquarters) -> list[str]:
    return sorted(str(run.job_id) for run in headquarters.state.runs.values() if run.living)


def test_free_gpus_are_shared_out_among_users_and_not_by_who_handed_in_more() -> None:
    headquarters = a_campus("x", gpus=4)
    headquarters.submits("blocker", replace(of("root"), request=a_spec(gpus=4).request))
    for number in range(6):
        headquarters.later(1.0).submits(f"ada-{number}", of("ada"))
    for number in range(2):
        headquarters.later(1.0).submits(f"bob-{number}", of("bob"))
    finishes(headquarters, "blocker")
    assert holders(headquarters) == ["ada-0", "ada-1", "bob-0", "bob-1"]


def test_users_of_one_lab_share_what_their_lab_gets() -> None:
    headquarters = a_campus("x", gpus=4)
    headquarters.submits("blocker", replace(of("root"), request=a_spec(gpus=4).request))
    for user in ("ada", "bob", "cy"):
        for number in range(2):
            headquarters.later(1.0).submits(f"{user}-{number}", of(user, "crowd"))
    for number in range(2):
        headquarters.later(1.0).submits(f"loner-{number}", of("loner", "small"))
    finishes(headquarters, "blocker")
    assert holders(headquarters) == ["ada-0", "bob-0", "loner-0", "loner-1"]


def test_who_used_more_lately_waits_longer_and_is_told_so() -> None:
    headquarters = a_campus("x")
    headquarters.submits("first", of("ada", "vision"))
    headquarters.submits("again", of("ada", "vision"))
    headquarters.submits("other", of("bob", "robots"))
    finishes(headquarters, "first")
    assert holders(headquarters) == ["other"]
    assert waits(headquarters, "again") == "no waiting job goes before it: it gets the next room that fits"
    headquarters.submits("third", of("cy", "sound"))
    assert waits(headquarters, "again") == (
        "where there is room, 1 waiting job goes first: 1 of who has used less lately; lab vision has had "
        "100 % of what was used lately (1 GPU-hours) and has lent 0"
    )


def waits(headquarters: Headquarters, job_id: str) -> str:
    (reason,) = headquarters.engine.waits_because(headquarters.now_s, JobId(job_id))
    return reason.sentence()


def test_a_share_is_named_only_where_it_is_why_others_go_first() -> None:
    headquarters = a_campus("x")
    headquarters.submits("blocker", of("root"))
    headquarters.submits("own", of("ada"))
    headquarters.submits("last", of("ada"))
    headquarters.submits("urgent", replace(of("bob"), priority=Priority.HIGH))
    assert waits(headquarters, "last") == (
        "where there is room, 2 waiting jobs go first: 1 of a higher priority, 1 handed in before it"
    )
    headquarters.hears(QuotaSet(quota=Quota(id="user:ada", gpus=0, set_s=0.0)))
    assert "user ada may hold 0 GPUs at once" in waits(headquarters, "last")  # and no turn would help


def test_a_lab_that_lent_more_waits_less() -> None:
    headquarters = a_campus("lender")
    headquarters.submits("guest", of("ada", "vision"))
    finishes(headquarters, "guest")
    headquarters.joins("other", facts(lab="other"))
    headquarters.submits("hog-1", of("hog"))
    headquarters.submits("hog-2", of("hog"))
    headquarters.submits("newcomer", of("bob", "robots"))
    headquarters.submits("owners", of("eve", "lender"))
    headquarters.reported("lender", NodeReclaimed(freed_after_s=0.0, killed=True))
    other = next(str(run.job_id) for run in headquarters.state.runs.values() if run.node_id == "other")
    finishes(headquarters, other)
    assert holders(headquarters)[-1] == "owners"  # not the newcomer, who has neither used nor lent


def test_a_labs_own_jobs_come_first_on_its_own_machines_and_cost_it_nothing() -> None:
    headquarters = a_campus("vision")
    headquarters.submits("guest", of("bob", "robots"))
    headquarters.submits("urgent", replace(of("bob", "robots"), priority=Priority.HIGH))
    headquarters.submits("own", of("ada", "vision"))
    finishes(headquarters, "guest")
    assert holders(headquarters) == ["own"]
    finishes(headquarters, "own")
    account = headquarters.state.memories.accounts["lab:vision"]
    assert account.used_gpu_s == 0.0
    assert account.lent_gpu_s > 0.9 * HOUR_S
    (machine,) = headquarters.state.nodes.values()
    assert machine.lent_gpu_s > account.lent_gpu_s  # its own lab's jobs are guests as well


def test_a_quota_holds_back_and_says_so_and_lifting_it_lets_go() -> None:
    headquarters = a_campus("x", gpus=4)
    told = headquarters.hears(QuotaSet(quota=Quota(id="user:ada", gpus=1, set_s=0.0, by="ops")))
    assert [reason.sentence() for reason in told.reasons] == ["user ada may hold 1 GPU at once, says ops"]
    headquarters.submits("one", of("ada"))
    decision = headquarters.submits("two", of("ada"))
    assert whys(decision, "two") == [Why.SUBMITTED, Why.QUOTA_REACHED]
    reasons = headquarters.engine.waits_because(headquarters.now_s, JobId("two"))
    assert reasons[0].sentence() == "waits: user ada holds 1 of the 1 GPU allowed at once; this needs 1"
    headquarters.submits("bobs", of("bob"))
    assert holders(headquarters) == ["bobs", "one"]
    headquarters.hears(QuotaSet(quota=Quota(id="user:ada", gpus=None, set_s=0.0, by="ops")))
    assert holders(headquarters) == ["bobs", "one", "two"]


def test_who_may_hold_too_few_gpus_is_told_at_once_that_waiting_will_not_do() -> None:
    headquarters = a_campus("x")
    headquarters.submits("others", of("bob"))
    headquarters.submits("waits", of("bob"))  # nothing is free for anybody who asks the same
    headquarters.hears(QuotaSet(quota=Quota(id="user:*", gpus=0, set_s=0.0)))
    decision = headquarters.submits("mine", of("ada"))
    assert whys(decision, "mine") == [Why.SUBMITTED, Why.QUOTA_TOO_SMALL]
    assert decision.reasons[1].sentence() == (
        "cannot begin: user ada may hold 0 GPUs at once, and this needs 1. Next: stop it and ask for less, "
        "or have whoever runs the campus allow more (gpunion quotas set user:ada 1)"
    )
    (live, *_) = headquarters.engine.waits_because(headquarters.now_s, JobId("mine"))
    assert live.why is Why.QUOTA_TOO_SMALL


def test_a_quota_of_everybody_is_for_those_who_have_none_of_their_own() -> None:
    headquarters = a_campus("x", gpus=4)
    headquarters.hears(QuotaSet(quota=Quota(id="lab:*", gpus=1, set_s=0.0)))
    headquarters.hears(QuotaSet(quota=Quota(id="lab:vision", gpus=2, set_s=0.0)))
    for number in range(3):
        headquarters.submits(f"v-{number}", of("ada", "vision"))
        headquarters.submits(f"r-{number}", of("bob", "robots"))
    assert holders(headquarters) == ["r-0", "v-0", "v-1"]


def test_quotas_and_shares_outlive_the_coordinator() -> None:
    headquarters = a_campus("x", gpus=2)
    headquarters.hears(QuotaSet(quota=Quota(id="user:ada", gpus=1, set_s=0.0)))
    headquarters.submits("one", of("ada"))
    other = headquarters.later(60.0).restarts()
    other.submits("two", of("ada"))
    assert holders(other) == ["one"]
    assert other.state.memories.accounts["user:ada"] == headquarters.state.memories.accounts["user:ada"]


def test_a_job_behind_its_deadline_goes_first_and_is_told_so() -> None:
    headquarters = a_campus("x")
    headquarters.submits("blocker", of("root"))
    late = of("hog", expected_s=HOUR_S, finish_within_s=3 * HOUR_S)
    headquarters.submits("earlier", of("bob"))
    headquarters.submits("dated", late)
    assert headquarters.engine.waits_because(headquarters.now_s, JobId("dated"))[0].why is Why.IN_LINE
    finishes(headquarters, "blocker")
    assert holders(headquarters) == ["dated"]


def test_a_job_whose_deadline_is_out_of_reach_takes_its_turn_like_others() -> None:
    headquarters = a_campus("x")
    headquarters.submits("blocker", of("root"))
    headquarters.submits("earlier", of("bob"))
    headquarters.submits("dated", of("hog", expected_s=HOUR_S, finish_within_s=HOUR_S))
    finishes(headquarters, "blocker")
    assert holders(headquarters) == ["earlier"]
    reasons = headquarters.engine.waits_because(headquarters.now_s, JobId("dated"))
    assert [reason.why for reason in reasons] == [Why.DEADLINE_MISSED, Why.FIRST_IN_LINE]


@pytest.mark.parametrize(("within_s", "goes_to"), [(1000 * HOUR_S, "flighty"), (3 * HOUR_S, "calm")])
def test_a_late_job_goes_where_it_can_stay_though_that_be_slower(within_s: float, goes_to: str) -> None:
    headquarters = Headquarters(policies=LIVE, now_s=0.0)
    headquarters.joins("flighty", facts(speed=2.0))
    headquarters.joins("calm", facts(speed=1.0))
    for _ in range(40):
        headquarters.later(HOUR_S).reported("flighty", NodeReclaimed(freed_after_s=0.0, killed=True))
        headquarters.later(60.0).reported("flighty", NodeResumed())
    headquarters.hears(TimerFired(timer=LessonDue()))
    dated = of("ada", expected_s=HOUR_S / 4, finish_within_s=within_s)
    job = a_job(spec=dated, submitted_s=headquarters.now_s)
    later_s = headquarters.now_s + HOUR_S
    scoring = headquarters.engine.informed_policies().scoring
    scores = {
        node.id: scoring.score(job, a_view(node), node.facts.capacity.gpus, later_s)
        for node in headquarters.state.nodes.values()
    }
    assert max(scores, key=lambda node: scores[node]) == goes_to


def test_a_wide_job_is_not_overtaken_for_ever_by_narrow_ones() -> None:
    headquarters = a_campus("x", gpus=2)
    for number in range(2):
        headquarters.submits(f"narrow-{number}", of("ada"))
        headquarters.started(f"narrow-{number}-e1")
    headquarters.later(1.0).submits("wide", replace(of("bob"), request=a_spec(gpus=2).request))
    headquarters.later(1.0).submits("next", of("cy"))
    headquarters.later(1.0).submits("after", of("cy"))
    headquarters.later(HOUR_S).ended("narrow-0-e1", EndReason.FINISHED, exit_code=0)
    assert holders(headquarters) == ["narrow-1", "next"]  # nobody has waited for long: no GPU is left idle
    headquarters.started("next-e1")
    headquarters.later(PATIENCE_S).ended("narrow-1-e1", EndReason.FINISHED, exit_code=0)
    assert holders(headquarters) == ["next"]
    headquarters.ended("next-e1", EndReason.FINISHED, exit_code=0)
    assert holders(headquarters) == ["wide"]
    headquarters.started("wide-e1")
    headquarters.later(HOUR_S).ended("wide-e1", EndReason.FINISHED, exit_code=0)
    assert holders(headquarters) == ["after"]


def test_a_labs_own_interrupted_job_goes_home_before_its_new_ones() -> None:
    headquarters = a_campus("vision", "x")
    headquarters.submits("moved", of("ada", "vision"))
    headquarters.started("moved-e1")
    headquarters.submits("guest", of("bob"))
    headquarters.started("guest-e1")
    headquarters.reported("vision", NodeReclaimed(freed_after_s=0.0, killed=True))
    headquarters.ended("moved-e1", EndReason.KILLED_BY_OWNER)
    headquarters.submits("fresh", of("ada", "vision"))
    headquarters.later(60.0).reported("vision", NodeResumed())
    assert holders(headquarters) == ["guest", "moved"]


@pytest.mark.parametrize(
    ("spec", "runs", "nodes"),
    [
        (of("sam"), ["job-e1"], ["alpha", "beta"]),
        (of("sam", seat=Seat(size=2)), ["job-e1", "job-r1-e1"], ["alpha", "beta", "gamma"]),
    ],
)
def test_a_place_kept_for_a_job_that_its_quota_holds_back_is_free_for_others(
    spec: JobSpec, runs: list[str], nodes: list[str]
) -> None:
    headquarters = Headquarters(policies=LIVE)
    for node in nodes:
        headquarters.joins(node, facts(gpus=1))
    headquarters.submits("job", spec)
    for run in runs:
        headquarters.started(run)
    notice = NoticeGiven(deadline_s=headquarters.now_s + 160)
    headquarters.later(100).reported(headquarters.run("job-e1").node_id, notice)
    kept = [one for one in headquarters.state.migrations.values() if one.reserved_gpus]
    assert len(kept) == len(runs)
    headquarters.hears(QuotaSet(quota=Quota(id="user:sam", gpus=0, set_s=0.0)))
    for run in runs:
        headquarters.durable(f"{run}-c1", step=50, final=True)
        headquarters.ended(run, EndReason.SAVED, step=50)
    assert headquarters.job("job").phase is JobPhase.MIGRATING
    headquarters.later(1).submits("other", of("ann"))
    assert headquarters.run("other-e1").node_id in {one.destination for one in kept}


def a_rationed_campus() -> Headquarters:
    headquarters = Headquarters(policies=replace(LIVE, high_gpus_a_user=1), now_s=0.0)
    headquarters.joins("x", facts(gpus=4, lab="x"))
    return headquarters


def test_a_user_holds_one_gpu_of_class_high_unless_a_quota_says_otherwise() -> None:
    headquarters = a_rationed_campus()
    for number in range(3):
        headquarters.submits(f"urgent-{number}", of("ada", priority=Priority.HIGH))
    headquarters.submits("other", of("bob", priority=Priority.HIGH))
    headquarters.submits("plain", of("ada"))
    assert holders(headquarters) == ["other", "plain", "urgent-0"]
    assert waits(headquarters, "urgent-1") == (
        "waits: user ada holds 1 of the 1 GPU allowed at once for jobs of class high; this needs 1"
    )
    headquarters.hears(QuotaSet(quota=Quota(id="user:ada/high", gpus=2, set_s=0.0, by="root")))
    assert "user ada may hold 2 GPUs at once for jobs of class high, says root" in str(
        [reason.sentence() for _, reason in headquarters.told]
    )
    assert holders(headquarters) == ["other", "plain", "urgent-0", "urgent-1"]


def test_whoever_asks_for_more_of_class_high_than_is_allowed_is_told_what_to_do() -> None:
    headquarters = a_rationed_campus()
    headquarters.submits("wide", of("ada", priority=Priority.HIGH, request=a_spec(gpus=2).request))
    assert holders(headquarters) == []
    assert waits(headquarters, "wide").endswith(
        "Next: stop it and hand it in without --priority high, or have whoever runs the campus allow more "
        "(gpunion quotas set user:ada 2 --class high)"
    )


def test_a_flood_of_urgent_jobs_of_one_user_drives_out_no_more_than_the_ration() -> None:
    headquarters = a_rationed_campus()
    for number in range(4):
        headquarters.submits(f"low-{number}", of("bob", priority=Priority.LOW))
        headquarters.started(f"low-{number}-e1")
    for number in range(10):
        headquarters.submits(f"urgent-{number}", of("ada", priority=Priority.HIGH))
    leaving = [job.id for job in headquarters.state.jobs.values() if job.phase is JobPhase.LEAVING]
    assert len(leaving) == 1
