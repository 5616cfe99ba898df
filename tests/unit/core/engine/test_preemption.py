"""A job of a higher class finds no room: who makes it, who is left alone, and how it is told."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import JobId
from gpunion.domain.jobs.account import Quota
from gpunion.domain.jobs.job import JobPhase, Priority
from gpunion.domain.jobs.migration import Cause
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.events import JobStopAsked, QuotaSet
from gpunion.domain.protocol.orders import StopRun
from gpunion.domain.reasons.reason import Why
from gpunion.policy.policies import BASELINE, LIVE
from gpunion.policy.preemption import PREEMPTION, SETTLED_LEAST_S, WAITED_LEAST_S
from tests.builders import Headquarters, a_spec, facts, orders, whys


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
    """Hands in a job; returns who is asked to go by when it has waited for long enough."""
    headquarters.submits("wanted", a_spec(gpus=gpus, priority=priority))
    headquarters.later(WAITED_LEAST_S)
    if headquarters.timer_at("replan") is not None:
        headquarters.fires("replan")
    return leaving(headquarters)


def leaving(headquarters: Headquarters) -> list[str]:
    jobs = headquarters.state.jobs.values()
    return sorted(str(job.id) for job in jobs if job.phase is JobPhase.LEAVING)


def test_the_victim_is_saved_makes_room_and_goes_on_later() -> None:
    headquarters = full_campus(("low", Priority.LOW))
    assert wants(headquarters) == ["low"]
    said = [reason.sentence() for _, reason in headquarters.told if reason.why is Why.MADE_ROOM]
    assert said[0].startswith("made room on alpha for wanted, which is of class high")
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
    assert leaving(headquarters) == []  # its program does not save itself: it would be asked in vain
    headquarters.fires("checkpoint:low-e1")
    headquarters.captured("low-e1-c2", step=10)
    headquarters.durable("low-e1-c2", step=10)
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


def test_a_job_of_class_high_gets_room_the_moment_it_is_handed_in() -> None:
    headquarters = full_campus(("low", Priority.LOW))
    decision = headquarters.submits("wanted", a_spec(priority=Priority.HIGH))
    assert Why.ROOM_MADE in whys(decision)
    assert leaving(headquarters) == ["low"]


def test_a_job_of_another_class_that_has_only_begun_to_wait_drives_nobody_out() -> None:
    headquarters = full_campus(("low", Priority.LOW))
    decision = headquarters.submits("wanted", a_spec(priority=Priority.NORMAL))
    assert Why.ROOM_MADE not in whys(decision)
    headquarters.fires("replan")
    assert leaving(headquarters) == []
    headquarters.later(WAITED_LEAST_S)
    headquarters.fires("replan")
    assert leaving(headquarters) == ["low"]


def test_where_it_has_to_pay_class_high_waits_as_others_do_and_where_it_is_off_for_ever() -> None:
    for word, asked in (("when-it-pays", ["low"]), ("off", [])):
        policies = replace(LIVE, preemption=PREEMPTION[word])
        headquarters = full_campus(("low", Priority.LOW), policies=policies)
        headquarters.submits("wanted", a_spec(priority=Priority.HIGH))
        assert leaving(headquarters) == []
        headquarters.later(WAITED_LEAST_S)
        headquarters.fires("replan")
        assert leaving(headquarters) == asked


def test_two_urgent_jobs_at_once_each_have_a_victim_of_their_own() -> None:
    headquarters = full_campus(("a", Priority.LOW), ("b", Priority.LOW), ("c", Priority.LOW))
    headquarters.submits("first", a_spec(priority=Priority.HIGH))
    headquarters.submits("second", a_spec(priority=Priority.HIGH))
    assert len(leaving(headquarters)) == 2


def test_nobody_else_goes_for_a_job_that_needs_what_is_being_given_up_for_one_that_is_stopped() -> None:
    headquarters = full_campus(("a", Priority.LOW), ("b", Priority.LOW))
    headquarters.submits("first", a_spec(priority=Priority.HIGH))
    headquarters.hears(JobStopAsked(job_id=JobId("first")))
    headquarters.submits("second", a_spec(priority=Priority.HIGH))
    assert len(leaving(headquarters)) == 1


def test_a_gpu_that_is_made_free_for_one_is_not_counted_for_another() -> None:
    """On two GPUs one is free: a wide job has the other emptied, and a second job needs one more machine."""
    headquarters = full_campus(("low", Priority.LOW), gpus=2)
    headquarters.submits("wide", a_spec(gpus=2, priority=Priority.HIGH))
    assert leaving(headquarters) == ["low"]
    headquarters.submits("too much", a_spec(gpus=2, priority=Priority.HIGH))
    told = [reason.subject for _, reason in headquarters.told if reason.why is Why.ROOM_MADE]
    assert told == ["wide"]


def waits(headquarters: Headquarters, job: str) -> str:
    return headquarters.engine.waits_because(headquarters.now_s, JobId(job))[0].sentence()


def test_both_are_told_who_goes_for_whom_and_when() -> None:
    headquarters = full_campus(("low", Priority.LOW))
    headquarters.submits("wanted", a_spec(priority=Priority.HIGH, expected_s=600.0))
    told = [reason.sentence() for _, reason in headquarters.told]
    assert "room is made for it on alpha by low, of class low: its place is expected in about 1 s" in told
    expected = "its place on alpha is expected in about 1 s: low, of class low, is being saved there first"
    assert waits(headquarters, "wanted") == expected
    headquarters.captured("low-e1-c1", step=5)
    headquarters.ended("low-e1", EndReason.SAVED, step=5)
    headquarters.durable("low-e1-c1", step=5, final=True)
    headquarters.started("wanted-e1")
    assert waits(headquarters, "low") == (
        "it made room on alpha for wanted, of class high, which says that it is done in about 10 min; "
        "it goes on there after that, or as soon as there is another place"
    )
    headquarters.engine.note_progress(headquarters.run("wanted-e1").id, 500, 0.5)
    assert "about 5 min" in waits(headquarters, "low")


def test_whoever_does_not_say_how_long_it_runs_is_told_of_as_such_and_so_is_one_that_is_over() -> None:
    headquarters = full_campus(("low", Priority.LOW))
    headquarters.submits("wanted", a_spec(priority=Priority.HIGH))
    headquarters.captured("low-e1-c1", step=5)
    headquarters.ended("low-e1", EndReason.SAVED, step=5)
    headquarters.durable("low-e1-c1", step=5, final=True)
    assert "does not say how long it runs" in waits(headquarters, "low")
    headquarters.started("wanted-e1")
    headquarters.submits("next", a_spec(priority=Priority.HIGH))
    headquarters.ended("wanted-e1", EndReason.FINISHED, exit_code=0)
    assert waits(headquarters, "low") == "it made room on alpha for wanted, which is over: it takes its turn"


def test_an_urgent_job_is_told_why_nobody_makes_room_for_it() -> None:
    headquarters = full_campus(("high", Priority.HIGH), ("low", Priority.LOW))
    headquarters.submits("wide", a_spec(gpus=2, priority=Priority.HIGH))
    told = (
        "nobody makes room for it now; of the jobs that have a place: 1 of its own class or a higher one, 1 "
    )
    assert waits(headquarters, "wide") == f"{told}without which there would be no room for it either"
    headquarters.submits("wanted", a_spec(priority=Priority.HIGH))
    headquarters.not_saved("low-e1-c1")
    why = "that cannot leave without a loss, and was not handed in with --preemptible"
    assert waits(headquarters, "wanted") == told + why


def test_where_one_could_not_be_saved_another_is_asked_at_once() -> None:
    headquarters = full_campus(("low", Priority.LOW), ("normal", Priority.NORMAL))
    headquarters.submits("wanted", a_spec(priority=Priority.HIGH))
    assert leaving(headquarters) == ["low"]
    headquarters.not_saved("low-e1-c1")
    assert leaving(headquarters) == ["normal"]


def test_whoever_cannot_be_saved_goes_all_the_same_only_where_it_is_preemptible() -> None:
    headquarters = Headquarters(policies=LIVE, now_s=0.0)
    headquarters.joins("alpha")
    headquarters.submits("low", replace(a_spec(priority=Priority.LOW), preemptible=True))
    headquarters.started("low-e1")
    headquarters.submits("wanted", a_spec(priority=Priority.HIGH))
    decision = headquarters.not_saved("low-e1-c1")
    assert [type(order) for _, order in orders(decision)] == [StopRun]
    assert headquarters.job("wanted").phase is JobPhase.PENDING  # its GPU is not free before it has ended
    headquarters.ended("low-e1", EndReason.STOPPED, step=7)
    assert headquarters.job("wanted").phase is JobPhase.STARTING
    assert headquarters.job("low").phase is JobPhase.MIGRATING
    told = [reason.sentence() for _, reason in headquarters.told]
    assert any("leaves all the same, as it was handed in with --preemptible" in sentence for sentence in told)
    headquarters.started("wanted-e1")
    headquarters.ended("wanted-e1", EndReason.FINISHED, exit_code=0)
    assert headquarters.run("low-e2").restored_from is None


def test_a_preemptible_job_stays_where_nobody_needs_its_place_any_more() -> None:
    headquarters = Headquarters(policies=LIVE, now_s=0.0)
    headquarters.joins("alpha")
    headquarters.submits("low", replace(a_spec(priority=Priority.LOW), preemptible=True))
    headquarters.started("low-e1")
    headquarters.submits("wanted", a_spec(priority=Priority.HIGH))
    headquarters.hears(JobStopAsked(job_id=JobId("wanted")))
    headquarters.not_saved("low-e1-c1")
    assert headquarters.job("low").phase is JobPhase.RUNNING
