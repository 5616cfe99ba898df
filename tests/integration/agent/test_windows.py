"""Jobs that run in windows, with a real agent and real guests: who ends a piece, and what is learned."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.domain.ids import JobId
from gpunion.domain.jobs.job import CheckpointWish, JobPhase, JobSpec
from gpunion.domain.jobs.profile import Profile
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.resources import MIB, Request
from gpunion.policy.policies import LIVE
from tests.builders.calendars import an_appointment
from tests.integration.agent.campus import TIMING, TestCampus, eventually
from tests.integration.agent.machine import ODD, TRAIN, Machine
from tests.trees import a_tree

pytestmark = [pytest.mark.requires("bwrap"), pytest.mark.timeout(300)]

# Long enough for a window to be told on a machine that is busy.
AHEAD_S, LASTS_S = 20.0, 600.0
STEPS = 4000
WAITS = """
import os, time
print("resume " + os.environ["GPUNION_RESUME"], flush=True)
time.sleep(600)
"""
OWN_WORDS = b"gpunion: its window ends"


@pytest.fixture
async def campus() -> AsyncIterator[TestCampus]:
    campus = TestCampus(replace(TIMING), policies=LIVE)
    await campus.start()
    yield campus
    await campus.stop()


def submit(campus: TestCampus, program: str, *saved_by: str) -> JobId:
    spec = JobSpec(
        name="job-1",
        command=("python", "train.py"),
        owner="student",
        request=Request(gpus=1, cpus=0.5, memory_bytes=64 * MIB),
        environment=(("STEPS", str(STEPS)),),
        bundle=campus.serve(a_tree({"train.py": program.encode()})),
        checkpoint=CheckpointWish(max_interval_s=600.0, command=saved_by),
        atomizable=True,
    )
    return campus.submit_spec("job-1", spec)


async def given_an_end(campus: TestCampus, machine: Machine, folder: Path, job: JobId) -> None:
    calendar = an_appointment(folder / "calendar.ics", in_s=AHEAD_S, lasts_s=LASTS_S)
    await machine.owner("terms", set={"calendar": str(calendar)})
    window = machine.state_dir / "guests" / f"{job}-e1" / "control" / "window.json"
    await eventually(window.exists, "its program can read where its window ends")


def profile_of(campus: TestCampus, job: JobId) -> Profile:
    return campus.job(job).profile or Profile()


async def test_a_program_ends_its_piece_while_its_agent_is_dead_and_goes_on_from_there(
    campus: TestCampus, machine: Machine, tmp_path: Path
) -> None:
    machine.boot()
    job = submit(campus, TRAIN)
    await eventually(lambda: b"beginning" in campus.logs.get("job-1-e1", b""), "it trains")
    await given_an_end(campus, machine, tmp_path, job)
    machine.crash()
    await eventually(lambda: machine.living_guests() == [], "it has ended by itself, or its keeper ended it")
    machine.boot()
    await machine.listening()
    await machine.owner("terms", set={"calendar": ""})
    await eventually(lambda: len(campus.runs(job)) > 1, "it has its next piece")
    first = campus.runs(job)[0]
    assert first.end_reason is EndReason.SAVED, campus.story
    assert OWN_WORDS in campus.logs["job-1-e1"]
    assert profile_of(campus, job).steps > 0
    assert profile_of(campus, job).step_s >= 0.01
    assert profile_of(campus, job).misses == 0
    await eventually(lambda: campus.job(job).phase.over, "it ends")
    assert campus.job(job).phase is JobPhase.SUCCEEDED, campus.story
    assert campus.runs(job)[1].resumed_step == first.last_step > 0


async def test_one_that_is_saved_from_outside_is_saved_while_its_agent_is_dead(
    campus: TestCampus, machine: Machine, tmp_path: Path
) -> None:
    machine.boot()
    job = submit(campus, WAITS, "sh", "-c", "echo saved > $GPUNION_CHECKPOINT_DIR/state")
    await eventually(lambda: b"resume 0" in campus.logs.get("job-1-e1", b""), "it runs")
    await given_an_end(campus, machine, tmp_path, job)
    machine.crash()
    await eventually(lambda: machine.living_guests() == [], "it has been saved, or its keeper ended it")
    machine.boot()
    await machine.listening()
    await machine.owner("terms", set={"calendar": ""})
    await eventually(lambda: b"resume 1" in campus.logs.get("job-1-e2", b""), "it goes on from its save")
    assert campus.runs(job)[0].end_reason is EndReason.SAVED, campus.story
    profile = profile_of(campus, job)
    assert profile.step_s == 1.0  # seconds are its steps
    assert profile.misses == 0


async def test_a_program_that_heeds_nothing_and_lies_is_ended_and_hurts_nobody(
    campus: TestCampus, machine: Machine, tmp_path: Path
) -> None:
    machine.boot()
    job = submit(campus, ODD)
    await eventually(lambda: campus.logs.get("job-1-e1", b"").count(b"said") > 5, "it has said it all")
    await given_an_end(campus, machine, tmp_path, job)
    await eventually(lambda: campus.runs(job)[0].end_reason is not None, "its piece is over")
    assert campus.runs(job)[0].end_reason is EndReason.WINDOW, campus.story
    assert profile_of(campus, job).misses == 1
    assert 0 <= profile_of(campus, job).step_s < 1e6
    await machine.listening()  # the same agent as ever
