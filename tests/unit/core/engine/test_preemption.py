"""A job of a higher class finds no room: who makes it, who is left alone, and how it is told."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.account import Quota
from gpunion.domain.events import QuotaSet
from gpunion.domain.job import JobPhase, Priority
from gpunion.domain.migration import Cause
from gpunion.domain.reasons import Why
from gpunion.domain.run import EndReason
from gpunion.policy.policies import BASELINE, LIVE
from gpunion.policy.preemption import SETTLED_LEAST_S, WAITED_LEAST_S
from tests.builders import Headquarters, a_spec, facts, whys


def full_campus(
    *lower: tuple[str, Priority], gpus: int | None = None, policies: object = LIVE
) -> Headquarters:
    """One machine, a running job on each of its GPUs, begun one after the other."""
    headquarters = Headquarters(policies=policies, now_s=0.0)  # type: ignore[arg-type]
    headquarters.joins("alpha", facts(gpus=gpus or len(lower)))
    for name, priority in lower:
        headquarters.later(10.0).submits(name, a_spec(priority=priority))
        headquarters.started(f"{name}-e1")
    return headquarters


def saves(headquarters: Headquarters, job: str) -> None:
    headquarters.fires(f"checkpoint:{job}-e1")
    headquarters.captured(f"{job}-e1-c1", step=10)
    headquarters.durable(f"{job}-e1-c1", step=10)


def wants(headquarters: Headquarters, *, gpus: int = 1, priority: Priority = Priority.HIGH) -> list[str]:
    """Hands in a job of a high class and waits; returns who is asked to go."""
    headquarters.submits("wanted", a_spec(gpus=gpus, priority=priority))
    headquarters.later(WAITED_LEAST_S)
    headquarters.fires("replan")
    return leaving(headquarters)


def leaving(headquarters: Headquarters) -> list[str]:
    jobs = headquarters.state.jobs.values()
    return sorted(str(job.id) for job in jobs if job.phase is JobPhase.LEAVING)


def test_the_victim_is_saved_makes_room_and_goes_on_later() -> None:
    headquarters = full_campus(("low", Priority.LOW))
    assert wants(headquarters) == ["low"]
    said = [reason.sentence() for _, reason in headquarters.told if reason.why is Why.MADE_ROOM]
    assert said[0].startswith("made room on alpha for wanted, which is of a higher class")
    headquarters.captured("low-e1-c1", step=5)
    headquarters.ended("low-e1", EndReason.SAVED, step=5)
    headquarters.durable("low-e1-c1", step=5, final=True)
    assert headquarters.job("wanted").phase is JobPhase.STARTING
    assert headquarters.job("low").phase is JobPhase.MIGRATING
    migration = next(iter(headquarters.state.migrations.values()))
    assert (migration.cause, migration.room_for) == (Cause.PREEMPTED, "wanted")
    headquarters.started("wanted-e1")
    headquarters.ended("wanted-e1", EndReason.FINISHED, exit_code=0)
    assert headquarters.run("low-e2").restored_from == "low-e1-c1"


def test_whoever_saved_last_goes_and_not_whoever_began_last() -> None:
    headquarters = full_campus(("saved", Priority.LOW), ("unsaved", Priority.LOW))
    headquarters.later(600.0)
    saves(headquarters, "saved")
    assert wants(headquarters) == ["saved"]


def test_the_lowest_class_goes_though_it_costs_more() -> None:
    headquarters = full_campus(("normal", Priority.NORMAL), ("low", Priority.LOW))
    headquarters.later(600.0)
    saves(headquarters, "normal")
    assert wants(headquarters) == ["low"]


def test_nobody_makes_room_for_their_own_class() -> None:
    headquarters = full_campus(("one", Priority.NORMAL), ("two", Priority.HIGH))
    assert wants(headquarters, priority=Priority.NORMAL) == []


def test_as_few_as_possible_go_and_none_where_it_would_not_help() -> None:
    headquarters = full_campus(("a", Priority.LOW), ("b", Priority.LOW), ("c", Priority.NORMAL))
    assert wants(headquarters, gpus=2) == ["a", "b"]
    crowded = full_campus(("a", Priority.LOW), ("b", Priority.HIGH))
    assert wants(crowded, gpus=2) == []


def test_room_is_made_once_and_not_again_while_it_is_being_made() -> None:
    headquarters = full_campus(("a", Priority.LOW), ("b", Priority.LOW))
    assert len(wants(headquarters)) == 1
    headquarters.fires("replan")
    headquarters.fires("replan")
    assert len(leaving(headquarters)) == 1


def test_a_victim_that_could_not_be_saved_stays_and_is_left_alone_for_a_while() -> None:
    headquarters = full_campus(("low", Priority.LOW))
    assert wants(headquarters) == ["low"]
    headquarters.not_saved("low-e1-c1")
    assert headquarters.job("low").phase is JobPhase.RUNNING
    headquarters.fires("replan")
    assert leaving(headquarters) == []
    headquarters.later(SETTLED_LEAST_S)
    headquarters.fires("replan")
    assert leaving(headquarters) == ["low"]


def test_a_job_that_is_nearly_done_is_left_to_finish() -> None:
    headquarters = Headquarters(policies=LIVE, now_s=0.0)
    headquarters.joins("alpha")
    headquarters.submits("low", a_spec(priority=Priority.LOW, expected_s=100.0))
    headquarters.started("low-e1")
    headquarters.engine.note_progress(headquarters.run("low-e1").id, 990, 0.99)
    assert wants(headquarters) == []


def test_nobody_has_to_go_for_a_job_over_its_quota_or_under_policies_that_do_not_preempt() -> None:
    headquarters = full_campus(("low", Priority.LOW))
    headquarters.hears(QuotaSet(quota=Quota(id="lab:students", gpus=1, set_s=0.0)))
    assert wants(headquarters) == []
    peaceful = full_campus(("low", Priority.LOW), policies=replace(BASELINE))
    assert wants(peaceful) == []


def test_a_job_that_has_only_begun_to_wait_drives_nobody_out() -> None:
    headquarters = full_campus(("low", Priority.LOW))
    decision = headquarters.submits("wanted", a_spec(priority=Priority.HIGH))
    assert Why.ROOM_MADE not in whys(decision)
    headquarters.fires("replan")
    assert leaving(headquarters) == []
