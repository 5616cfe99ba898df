"""A run is started, here or elsewhere, and its machine may be in the way."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import JobId, NodeId, RunId
from gpunion.domain.jobs.job import JobPhase, SaveCost
from gpunion.domain.jobs.run import EndReason, RunPhase
from gpunion.domain.nodes.node import DiskRoom
from gpunion.domain.protocol.events import NodeReported, TimerFired
from gpunion.domain.protocol.reports import RunStarted
from gpunion.domain.protocol.timers import ReplanDue
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.runs.retry_limits import AT_MOST, Trouble
from gpunion.policy.checkpoint_timing.interval import Young
from tests.builders import TIMING, Headquarters, a_running_job, facts, orders, timers_of, whys

START_ATTEMPTS = AT_MOST[Trouble.START_FAILED]


def test_a_started_run_makes_its_job_run_and_sets_the_first_checkpoint() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    decision = headquarters.later(3).started()
    assert (headquarters.job().phase, headquarters.run().phase) == (JobPhase.RUNNING, RunPhase.RUNNING)
    assert headquarters.job().home == "alpha"
    assert headquarters.job().cost.restart_s == (SaveCost().restart_s + 3) / 2
    interval_s = Young().interval_s(headquarters.job(), headquarters.node(), headquarters.now_s)
    assert timers_of(decision) == {
        "start:job-e1": None,
        "checkpoint:job-e1": headquarters.now_s + interval_s,
    }
    assert decision.reasons[0].sentence() == "started on alpha from the beginning"


def test_a_start_reported_twice_starts_once() -> None:
    headquarters = a_running_job()
    assert headquarters.started().empty


def test_the_start_of_a_run_nobody_ordered_is_stopped() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    report = RunStarted(
        run_id=RunId("ghost-e1"),
        job_id=JobId("ghost"),
        epoch=1,
        restored=None,
        resumed_step=0,
        restore_s=0.0,
    )
    decision = headquarters.hears(NodeReported(node_id=NodeId("alpha"), report=report))
    assert whys(decision) == [Why.REPORT_REFUSED]
    assert [type(order).__name__ for _, order in orders(decision)] == ["StopRun"]


def test_a_refused_run_is_tried_elsewhere_and_the_reason_kept() -> None:
    headquarters = Headquarters()
    for node in ("alpha", "beta"):
        headquarters.joins(node)
    headquarters.submits()
    first = headquarters.run().node_id
    decision = headquarters.ended("job-e1", EndReason.REFUSED, why=Why.OWNER_SAID_NO)
    assert whys(decision) == [Why.RUN_REFUSED, Why.PLACED]
    assert headquarters.run("job-e2").node_id != first
    assert headquarters.job().start_failures == 0
    # It has never run, so nothing of it moved or stood still.
    assert whys(headquarters.started("job-e2")) == [Why.STARTED]
    ended = headquarters.ended("job-e2", EndReason.FINISHED)
    assert "after 0 moves" in ended.reasons[0].sentence()


def test_a_refusal_without_a_reason_is_told_as_such() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    decision = headquarters.ended("job-e1", EndReason.REFUSED)
    assert "no reason given" in decision.reasons[0].sentence()


def test_refusals_wear_off_one_by_one() -> None:
    headquarters = Headquarters()
    for node in ("alpha", "beta"):
        headquarters.joins(node)
    headquarters.submits()
    headquarters.ended("job-e1", EndReason.REFUSED)
    headquarters.later(20).ended("job-e2", EndReason.REFUSED)
    assert len(headquarters.job().avoid) == 2
    headquarters.later(TIMING.avoid_s - 15).hears(TimerFired(timer=ReplanDue()))
    headquarters.ended("job-e3", EndReason.REFUSED)
    assert len(headquarters.job().avoid) == 2


def test_a_run_that_cannot_be_started_three_times_in_a_row_fails_its_job() -> None:
    headquarters = Headquarters()
    for index in range(START_ATTEMPTS):
        headquarters.joins(f"node{index}")
    headquarters.submits()
    for epoch in range(1, START_ATTEMPTS):
        decision = headquarters.ended(f"job-e{epoch}", EndReason.START_FAILED, detail="no such file")
        assert (
            f"on {headquarters.run(f'job-e{epoch}').node_id}: no such file" in decision.reasons[0].sentence()
        )
        assert headquarters.job().phase is JobPhase.STARTING
    decision = headquarters.ended(f"job-e{START_ATTEMPTS}", EndReason.START_FAILED, detail="no such file")
    assert headquarters.job().phase is JobPhase.FAILED
    assert decision.reasons[0].sentence() == "failed: could not be started in 3 tries: no such file"
    assert headquarters.state.moving == set()


def test_a_job_whose_saves_cannot_be_read_fails_with_what_to_do_about_them() -> None:
    headquarters = Headquarters()
    for index in range(START_ATTEMPTS):
        headquarters.joins(f"node{index}")
    headquarters.submits()
    for epoch in range(1, START_ATTEMPTS + 1):
        decision = headquarters.ended(
            f"job-e{epoch}", EndReason.START_FAILED, detail="c1: a block is missing", why=Why.SAVE_UNREADABLE
        )
    assert headquarters.job().phase is JobPhase.FAILED
    told = decision.reasons[0].sentence()
    assert told.startswith(
        "failed: what it had saved could not be read in 3 tries: c1: a block is missing. Next: "
    )
    assert "gpunion vault verify" in told


def test_a_start_that_works_forgives_the_failed_ones() -> None:
    headquarters = Headquarters()
    for node in ("alpha", "beta"):
        headquarters.joins(node)
    headquarters.submits()
    headquarters.ended("job-e1", EndReason.START_FAILED)
    assert headquarters.job().start_failures == 1
    headquarters.started("job-e2")
    assert headquarters.job().start_failures == 0


def test_a_start_that_fails_in_the_middle_of_a_move_goes_on_looking() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta", "gamma"])
    headquarters.ended("job-e1", EndReason.KILLED_BY_OWNER)
    headquarters.ended("job-e2", EndReason.START_FAILED)
    assert len(headquarters.state.migrations) == 1
    assert headquarters.run("job-e3").phase is RunPhase.ORDERED


def test_a_run_that_resumes_says_at_which_step() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    headquarters.fires("checkpoint:job-e1")
    headquarters.durable("job-e1-c1", step=40)
    headquarters.ended("job-e1", EndReason.GUEST_LOST)
    decision = headquarters.started("job-e2", step=40, restored="job-e1-c1")
    node = headquarters.run("job-e2").node_id
    assert decision.reasons[0].sentence() == f"resumed on {node} at step 40"


def test_a_disk_that_fills_up_under_a_job_is_told_in_its_story_and_takes_nobody_new() -> None:
    headquarters = a_running_job()
    for disk in (DiskRoom.SHORT, DiskRoom.FULL, DiskRoom.FULL, DiskRoom.FINE):
        headquarters.joins("alpha", facts(disk=disk), guests=["job-e1"])
    assert headquarters.run().living
    told = [reason for _, reason in headquarters.told if reason.subject == "job"][-3:]
    assert [reason.why for reason in told] == [Why.DISK_SHORT, Why.DISK_FULL, Why.DISK_HAS_ROOM]
    assert "nothing of it is saved yet" in told[0].sentence()


def test_a_disk_that_fails_is_not_told_as_a_full_one() -> None:
    headquarters = a_running_job()
    full = facts(disk=DiskRoom.FULL)
    for now in (full, replace(full, disk_fails=True), facts()):
        headquarters.joins("alpha", now, guests=["job-e1"])
    told = [reason.why for _, reason in headquarters.told if reason.subject == "job"]
    assert told[-3:] == [Why.DISK_FULL, Why.DISK_FAILS, Why.DISK_WORKS]


def test_a_disk_that_each_save_fills_for_a_moment_is_not_told_of_at_each() -> None:
    headquarters = a_running_job()
    for _ in range(9):
        for disk in (DiskRoom.SHORT, DiskRoom.FINE):
            headquarters.later(300).joins("alpha", facts(disk=disk), guests=["job-e1"])
    told = [reason.why for _, reason in headquarters.told if reason.subject == "job"]
    of_disk = [why for why in told if why in (Why.DISK_SHORT, Why.DISK_HAS_ROOM)]
    assert of_disk == [Why.DISK_SHORT, Why.DISK_HAS_ROOM] * 2  # in an hour and a half


def test_a_place_too_full_for_the_fence_of_a_run_is_named_in_its_job_s_story() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    decision = headquarters.started(passed_over="attic: no space left")
    assert whys(decision) == [Why.STARTED, Why.PLACES_PASSED_OVER]
    assert "(attic: no space left)" in decision.reasons[1].sentence()
