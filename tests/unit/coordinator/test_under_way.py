"""A save that is under way is shown as its machine says, for as long as that is there to say it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.coordinator.api import views
from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.jobs.checkpoint import Checkpoint, CheckpointPhase
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.events import ProgramEnded
from gpunion.domain.protocol.frames import Finishing, Heartbeat, SaveNote
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.heartbeats import FOR_MAX_S, FRESH_BEATS, SIZE_MAX_BYTES
from gpunion.wire.v1 import convert, jobs
from tests.builders import TIMING, Campus, Headquarters, a_campus, a_running_job, a_spec

ALPHA, RUN = NodeId("alpha"), RunId("job-e1")
SENDING = SaveNote(
    run_id=RUN,
    checkpoint_id=CheckpointId("job-e1-c1"),
    stage="sending",
    for_s=4.0,
    done_bytes=410,
    total_bytes=1000,
)


@pytest.fixture
def campus() -> Campus:
    campus = a_campus(["alpha", "beta"])
    campus.submits("job", a_spec(expected_s=10_000))
    campus.advance(10)
    assert campus.station.engine.state.runs[RUN].node_id == ALPHA
    return campus


def asked(campus: Campus) -> Checkpoint:
    """Ten seconds ago."""
    return Checkpoint(
        id=SENDING.checkpoint_id,
        job_id=JobId("job"),
        run_id=RUN,
        epoch=1,
        phase=CheckpointPhase.REQUESTED,
        requested_s=campus.now_s - 10.0,
    )


def shown(
    campus: Campus, *told: SaveNote, by: str = "alpha", after_s: float = 0.0
) -> jobs.UnderWayOut | None:
    writes = len(campus.commits)
    frame = Heartbeat(sent_s=campus.now_s, ack=0, saves=told)
    assert campus.station.frame_arrived(campus.now_s, NodeId(by), frame) == []
    assert len(campus.commits) == writes
    return views.under_way(campus.station, asked(campus), campus.now_s + after_s)


def test_it_is_as_far_as_its_machine_said_a_moment_ago(campus: Campus) -> None:
    told = shown(campus, SENDING, after_s=1.5)
    assert told == jobs.UnderWayOut(
        stage="sending",
        for_s=5.5,
        done_bytes=410,
        total_bytes=1000,
        heard_at=convert.shown_time(campus.now_s),
    )
    told = shown(campus, replace(SENDING, stage="asked", for_s=None, done_bytes=0, total_bytes=None))
    assert told is not None
    assert (told.stage, told.for_s) == ("asked", 10.0)


def test_what_is_not_repeated_or_not_understood_is_not_known(campus: Campus) -> None:
    assert shown(campus, SENDING) is not None
    assert shown(campus) is None
    assert shown(campus, replace(SENDING, checkpoint_id=CheckpointId("job-e1-c7"))) is None
    assert shown(campus, replace(SENDING, stage="folding")) is None  # of a newer agent
    durable = replace(asked(campus), phase=CheckpointPhase.DURABLE)
    shown(campus, SENDING)
    assert views.under_way(campus.station, durable, campus.now_s) is None


def test_a_machine_speaks_of_its_own_guests_only(campus: Campus) -> None:
    shown(campus)
    assert shown(campus, SENDING, replace(SENDING, run_id=RunId("x-e1")), by="beta") is None
    assert campus.station.links[NodeId("beta")].saves.of(RUN, SENDING.checkpoint_id) is None


@pytest.mark.parametrize("much", [10**40, -(10**40)])
def test_what_a_machine_says_is_kept_within_bounds(campus: Campus, much: int) -> None:
    told = shown(campus, replace(SENDING, for_s=float(much), done_bytes=much, total_bytes=much))
    most, longest = (SIZE_MAX_BYTES, FOR_MAX_S) if much > 0 else (0, 0.0)
    assert told is not None
    assert (told.for_s, told.done_bytes, told.total_bytes) == (longest, most, most)


def test_of_a_machine_that_is_away_it_is_said_that_nobody_knows(campus: Campus) -> None:
    told = shown(campus, SENDING, after_s=FRESH_BEATS * TIMING.heartbeat_s + 0.1)
    assert told == convert.nobody_knows(campus.now_s)
    shown(campus, SENDING)
    campus.station.disconnected(ALPHA)
    assert views.under_way(campus.station, asked(campus), campus.now_s) == convert.nobody_knows(None)


def test_a_job_is_shown_with_the_save_that_is_under_way(campus: Campus) -> None:
    state = campus.station.engine.state
    job = state.jobs[JobId("job")]
    assert views.saving(campus.station, job, campus.now_s) is None
    before = replace(asked(campus), id=CheckpointId("job-e1-c0"), requested_s=0.0)
    for checkpoint in (asked(campus), before):
        state.put(checkpoint)
    told = shown(campus, SENDING)
    assert told is not None
    assert views.saving(campus.station, job, campus.now_s) == told
    over = replace(job, phase=JobPhase.CANCELLED)
    assert views.saving(campus.station, over, campus.now_s) is None


def test_a_job_that_was_refused_before_it_ever_ran_is_pending_and_one_that_ran_is_migrating() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    headquarters.ended("job-e1", EndReason.REFUSED, why=Why.PLACE_NOT_REACHED)
    assert headquarters.job().phase is JobPhase.MIGRATING
    assert views.shown_phase(headquarters.state, headquarters.job()) is JobPhase.PENDING
    headquarters = a_running_job()
    headquarters.ended("job-e1", EndReason.GUEST_LOST)
    assert views.shown_phase(headquarters.state, headquarters.job()) is JobPhase.MIGRATING


def test_a_job_whose_program_has_ended_is_finishing_with_what_keeps_its_output_from_being_taken() -> None:
    headquarters = a_running_job()
    assert views.shown_phase(headquarters.state, headquarters.job()) is JobPhase.RUNNING
    assert views.finishing_out(headquarters.run()) is None
    headquarters.hears(ProgramEnded(node_id=ALPHA, note=Finishing(run_id=RUN)))
    since = convert.shown_time(headquarters.now_s)
    assert headquarters.job().phase is JobPhase.RUNNING
    assert views.shown_phase(headquarters.state, headquarters.job()) is JobPhase.FINISHING
    assert views.finishing_out(headquarters.run()) == jobs.FinishingOut(since=since, trouble=None)
    full = Finishing(run_id=RUN, trouble="vault_full")
    headquarters.later(5).hears(ProgramEnded(node_id=ALPHA, note=full))
    told = jobs.FinishingOut(since=since, trouble="there is no room where its saves are kept")
    assert views.finishing_out(headquarters.run()) == told
