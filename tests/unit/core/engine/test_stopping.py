"""A user asks to stop a job, in whatever phase it is."""

from __future__ import annotations

import pytest

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.migration import MigrationPhase
from gpunion.domain.jobs.run import EndReason, RunPhase
from gpunion.domain.protocol.effects import SendOrder
from gpunion.domain.protocol.reports import NoticeGiven
from gpunion.domain.reasons.reason import Why
from tests.builders import Headquarters, a_campus, a_running_job, a_spec, a_stop, orders, timers_of, whys


def test_a_job_that_waits_is_cancelled_at_once() -> None:
    headquarters = Headquarters()
    headquarters.submits()
    decision = headquarters.stops()
    assert headquarters.job().phase is JobPhase.CANCELLED
    assert headquarters.job().ended_s == headquarters.now_s
    assert whys(decision) == [Why.STOP_ASKED, Why.CANCELLED]
    assert headquarters.state.waiting == set()


def test_a_job_that_starts_is_told_to_stop() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    decision = headquarters.stops()
    assert decision.effects == (SendOrder(node_id=NodeId("alpha"), order=a_stop("job-e1")),)
    assert (headquarters.job().phase, headquarters.run().phase) == (JobPhase.STOPPING, RunPhase.STOPPING)
    assert headquarters.started().effects != ()
    assert headquarters.job().phase is JobPhase.STOPPING


@pytest.mark.parametrize(
    "reason", [EndReason.STOPPED, EndReason.UNKNOWN, EndReason.FAILED, EndReason.SAVED, EndReason.REFUSED]
)
def test_a_job_being_stopped_is_cancelled_however_its_run_ends(reason: EndReason) -> None:
    headquarters = a_running_job()
    headquarters.stops()
    decision = headquarters.ended("job-e1", reason)
    assert headquarters.job().phase is JobPhase.CANCELLED
    assert whys(decision) == [Why.CANCELLED]


def test_a_job_that_finishes_before_the_stop_reaches_it_has_finished() -> None:
    headquarters = a_running_job()
    headquarters.stops()
    headquarters.ended("job-e1", EndReason.FINISHED, exit_code=0)
    assert headquarters.job().phase is JobPhase.SUCCEEDED


def test_a_job_that_leaves_is_stopped_and_its_move_abandoned() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    node = headquarters.run().node_id
    headquarters.reported(node, NoticeGiven(deadline_s=headquarters.now_s + 60))
    decision = headquarters.stops()
    assert orders(decision) == [(node, a_stop("job-e1"))]
    assert timers_of(decision)["flush:job-m1"] is None
    assert headquarters.job().migration is None
    [migration] = headquarters.state.migrations.values()
    assert migration.phase is MigrationPhase.ABANDONED
    headquarters.not_saved("job-e1-c1", CheckpointTrouble.GUEST_ENDED)
    headquarters.ended("job-e1", EndReason.STOPPED)
    assert headquarters.job().phase is JobPhase.CANCELLED


def test_a_job_between_two_nodes_is_cancelled_at_once() -> None:
    headquarters = a_running_job()
    headquarters.ended("job-e1", EndReason.GUEST_LOST)
    assert headquarters.job().phase is JobPhase.MIGRATING
    headquarters.stops()
    assert headquarters.job().phase is JobPhase.CANCELLED
    assert headquarters.state.moving == set()


def test_a_job_that_starts_again_after_a_move_is_told_to_stop() -> None:
    headquarters = a_running_job(nodes=["alpha", "beta"])
    headquarters.ended("job-e1", EndReason.GUEST_LOST)
    headquarters.stops()
    assert headquarters.job().phase is JobPhase.STOPPING
    headquarters.ended("job-e2", EndReason.STOPPED)
    assert headquarters.job().phase is JobPhase.CANCELLED


def test_asking_twice_is_asking_once() -> None:
    headquarters = a_running_job()
    headquarters.stops()
    assert headquarters.stops().empty


def test_a_job_that_is_over_cannot_be_stopped() -> None:
    headquarters = a_running_job()
    headquarters.ended("job-e1", EndReason.FINISHED)
    decision = headquarters.stops()
    assert decision.changes == ()
    assert decision.reasons[0].sentence() == "the job is already over (succeeded)"


def test_a_job_nobody_knows_cannot_be_stopped() -> None:
    assert whys(Headquarters().stops("ghost")) == [Why.UNKNOWN_JOB]


def test_on_the_wire_a_program_that_will_not_go_is_ended() -> None:
    campus = a_campus(["alpha"])
    campus.submits("job", a_spec(expected_s=1000))
    campus.advance(3)
    campus.stops()
    assert campus.job().phase is JobPhase.STOPPING
    campus.advance(6)
    assert campus.job().phase is JobPhase.CANCELLED
    assert campus.machines[NodeId("alpha")].living() == []


def test_on_the_wire_a_polite_program_goes_at_once() -> None:
    campus = a_campus(["alpha"])
    campus.submits("job", a_spec(expected_s=1000))
    campus.machines[NodeId("alpha")].polite = True
    campus.stops()
    assert campus.job().phase is JobPhase.CANCELLED
