"""Jobs that run in windows, on real processes: turns, and a hard end that holds with the agent dead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

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
