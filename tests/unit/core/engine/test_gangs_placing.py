"""A gang is placed all together or not at all, and what it waits for is told."""

from __future__ import annotations

from typing import Any

from gpunion.domain.ids import JobId
from gpunion.domain.jobs.account import Quota
from gpunion.domain.jobs.gang import Seat
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.node import DiskRoom
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.decision import Decision
from gpunion.domain.protocol.events import QuotaSet
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.reasons.reason import Why
from gpunion.policy.gangs.placing import GANG_PATIENCE_S
from tests.builders import Headquarters, a_spec, facts, orders, whys
from tests.builders.gangs import MEMBERS, RUNS, a_gang_spec, of_kind, phases, told

BOTH = {JobId(one) for one in MEMBERS}


def test_all_members_are_placed_in_one_decision_or_none_is() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=1, terms=Terms(max_guests=1)))
    headquarters.joins("beta")
    headquarters.submits("single")
    headquarters.started("single-e1")
    decision = headquarters.submits("job", a_gang_spec())
    assert orders(decision) == []
    assert whys(decision, "job-r1") == [Why.SUBMITTED, Why.GANG_SEAT, Why.GANG_WAITS]
    assert "1 of its gang's 2 members" in told(headquarters, "job", Why.GANG_WAITS)[0]
    started = of_kind(headquarters.later(1).joins("gamma"), StartRun)
    assert started.keys() == set(RUNS)
    assert [order.seat for order in started.values()] == [Seat(size=2, rank=0), Seat(size=2, rank=1)]


def test_members_share_a_machine_that_has_room_for_both() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=2))
    headquarters.joins("beta", facts(gpus=1))
    headquarters.submits("job", a_gang_spec())
    assert {headquarters.run(run).node_id for run in RUNS} == {"alpha"}


def test_of_two_gangs_that_do_not_both_fit_one_runs_and_the_other_holds_nothing() -> None:
    headquarters = Headquarters()
    for node in ("alpha", "beta", "gamma"):
        headquarters.joins(node)
    headquarters.submits("job", a_gang_spec())
    headquarters.later(1).submits("other", a_gang_spec())
    assert phases(headquarters) == ["starting", "starting"]
    assert [headquarters.job(one).phase.value for one in ("other", "other-r1")] == ["pending", "pending"]
    assert sum(len(runs) for runs in headquarters.state.living.values()) == 2


def test_a_gang_that_no_machines_could_ever_have_is_turned_away() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=4, terms=Terms(max_guests=2)))
    headquarters.joins("beta", facts(gpus=4, terms=Terms(deny_labs=("students",))))
    decision = headquarters.submits("job", a_gang_spec(3))
    assert [(reason.subject, reason.why) for reason in decision.reasons] == [
        ("job", Why.GANG_IMPOSSIBLE),
        ("alpha", Why.GANG_ROOM),
        ("beta", Why.LAB_NOT_ADMITTED),
    ]
    assert "there is room for 2" in decision.reasons[0].sentence()
    assert "room for 2 of the 3 members" in decision.reasons[1].sentence()
    assert headquarters.state.jobs == {}


def test_a_gang_waits_for_a_disk_to_have_room_and_keeps_nothing_from_others_meanwhile() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.joins("beta", facts(disk=DiskRoom.SHORT))
    decision = headquarters.submits("job", a_gang_spec())
    assert Why.GANG_IMPOSSIBLE not in whys(decision)
    assert phases(headquarters) == ["pending", "pending"]
    headquarters.later(GANG_PATIENCE_S + 1).submits("single")
    assert headquarters.run("single-e1").node_id == "alpha"
    headquarters.later(1).ended("single-e1", EndReason.FINISHED, exit_code=0)
    headquarters.later(1).joins("beta", facts())
    assert phases(headquarters) == ["starting", "starting"]


def test_a_machine_that_refuses_one_member_is_not_asked_for_any() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=2))
    headquarters.submits("job", a_gang_spec())
    headquarters.ended("job-e1", EndReason.REFUSED, why=Why.NO_LEASE)
    decision = headquarters.ended("job-r1-e1", EndReason.STOPPED)
    assert orders(decision) == []
    assert "refused or failed this job a moment ago" in told(headquarters, "job-r1", Why.GANG_WAITS)[0]


def test_a_waiting_gang_is_told_what_it_waits_for_and_cancelled_whole() -> None:
    headquarters = Headquarters()
    headquarters.submits("job", a_gang_spec())
    [waits] = headquarters.engine.waits_because(headquarters.now_s, JobId("job-r1"))
    assert "0 of its gang's 2 members would have a place now" in waits.sentence()
    assert "no machine is part of this campus now" in waits.sentence()
    headquarters.stops("job-r1")
    assert phases(headquarters) == ["cancelled", "cancelled"]


def test_quotas_count_what_all_members_hold() -> None:
    headquarters = Headquarters()
    headquarters.hears(QuotaSet(quota=Quota(id="user:sam", gpus=1, by="ops", set_s=0.0)))
    for node in ("alpha", "beta"):
        headquarters.joins(node)
    decision = headquarters.submits("job", a_gang_spec())
    assert orders(decision) == []
    assert Why.QUOTA_TOO_SMALL in whys(decision, "job")
    live = headquarters.engine.waits_because(headquarters.now_s, JobId("job"))
    assert Why.QUOTA_TOO_SMALL in [reason.why for reason in live]


def a_crowded_campus(**single: Any) -> Headquarters:
    """Three machines with one job each, and a gang of two that has waited for a while."""
    headquarters = Headquarters()
    for number, node in enumerate(("alpha", "beta", "gamma")):
        headquarters.joins(node)
        headquarters.submits(f"single-{number}", a_spec(**single))
        headquarters.started(f"single-{number}-e1")
    headquarters.submits("job", a_gang_spec())
    headquarters.later(GANG_PATIENCE_S + 1)
    return headquarters


def ends(headquarters: Headquarters, job: str) -> Decision:
    run = f"{job}-e{headquarters.job(job).epoch}"
    return headquarters.ended(run, EndReason.FINISHED, exit_code=0)


def test_jobs_behind_a_gang_that_waits_do_not_keep_it_waiting_for_ever() -> None:
    headquarters = a_crowded_campus()
    started: list[str] = []
    for number in range(3):
        headquarters.submits(f"behind-{number}")
    for number in range(3):
        decision = ends(headquarters, f"single-{number}")
        started += [order.job_id for order in of_kind(decision, StartRun).values()]
        headquarters.later(1)
    assert set(started[:2]) <= BOTH | {"behind-0"}
    assert phases(headquarters) == ["starting", "starting"]


def test_a_job_that_is_gone_in_time_may_use_a_machine_kept_for_a_gang() -> None:
    headquarters = a_crowded_campus(expected_s=5000)
    ends(headquarters, "single-0")
    headquarters.submits("long", a_spec(expected_s=10_000))
    assert headquarters.job("long").phase is JobPhase.PENDING
    headquarters.submits("short", a_spec(expected_s=600))
    assert headquarters.job("short").phase is JobPhase.STARTING
