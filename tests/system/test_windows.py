"""Jobs that run in windows, on real processes: turns, and a hard end that holds with the agent dead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpunion.agent.owner import client as owner_client
from tests.builders.calendars import an_appointment
from tests.system.scene import PATIENT, Scene

pytestmark = [pytest.mark.xdist_group("windows"), pytest.mark.timeout(300)]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    short = {"GPUNION_COORDINATOR_TURN_LEAST_S": "3", "GPUNION_COORDINATOR_TURN_MOST_S": "5"}
    opened = Scene.open(tmp_path / "campus", labs=("a",), timing=PATIENT, environments={"coordinator": short})
    try:
        yield opened
    finally:
        opened.close()


def test_two_jobs_share_a_gpu_by_turns_and_neither_loses_a_step(scene: Scene) -> None:
    first = scene.submit(steps=900, every_s=600.0, atomizable=True)
    scene.until_beating(first)
    began_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    second = scene.submit(steps=60, every_s=600.0, atomizable=True)
    scene.until_beating(second, at_least=1)
    print(f"the second began after {scene.beats(second)[0][1] - began_s:.2f} s")
    shown = scene.campus.client().windows()
    assert shown["policy"] == "windows-fair"
    assert scene.until_over(second)["phase"] == "succeeded"
    job = scene.until_over(first)
    assert job["phase"] == "succeeded", scene.story(first)
    assert job["epoch"] >= 2
    assert job["moves"] == 0
    assert job["pieces"]["windows"] >= 1
    for name, steps in ((first, 900), (second, 60)):
        assert [step for _, _, step in scene.beats(name)] == list(range(steps))
        scene.check_trail(name)
    scene.check_audit()
    assert "its window on" in scene.story(first)


# Until an appointment begins, and how long it lasts: longer than a window has to be to be seen by its tenant.
AHEAD_S, LASTS_S = 15.0, 3.0
TRIES = 5
OWN_WORDS = "gpunion: its window ends"


def _an_appointment(scene: Scene) -> None:
    """Soon the machine is its owner's for a moment, by their calendar."""
    calendar = an_appointment(scene.campus.root / "calendar.ics", in_s=AHEAD_S, lasts_s=LASTS_S)
    owner_client.change_terms(scene.campus.state_dir("a"), {"calendar": str(calendar)})


def test_a_program_ends_its_piece_by_itself_and_the_campus_learns_its_steps(scene: Scene) -> None:
    steps, step_s = 900, 0.05
    job_id = scene.submit(steps=steps, step_s=step_s, every_s=600.0, atomizable=True)
    for _ in range(TRIES):  # on a machine that stood still for a second its agent may have asked first
        epoch = scene.until_phase(job_id, "running")["epoch"]
        scene.until_beating(job_id, at_least=len(scene.beats(job_id)) + 10)
        _an_appointment(scene)
        scene.until(job_id, "in its next piece", lambda job, former=epoch: job["epoch"] > former)  # type: ignore[misc]
        said = scene.patiently(lambda: scene.campus.client().logs(job_id)["text"])
        if OWN_WORDS in said:
            break
    assert OWN_WORDS in said, scene.story(job_id)
    job = scene.until_over(job_id)
    assert job["phase"] == "succeeded", scene.story(job_id)
    assert job["moves"] == 0
    assert job["pieces"]["step_s"] >= step_s
    assert [step for _, _, step in scene.beats(job_id)] == list(range(steps))
    scene.check_trail(job_id)
    scene.check_audit()
    assert "its window on" in scene.story(job_id)
