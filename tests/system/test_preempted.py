"""An urgent job takes the place of one that works: it begins within seconds, and no step is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.scene import PATIENT, Scene

pytestmark = [pytest.mark.xdist_group("preempted"), pytest.mark.timeout(300)]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    # Nobody looks at the queue again while this goes on: what happens, happens at once.
    opened = Scene.open(tmp_path / "campus", labs=("a",), timing={**PATIENT, "replan_s": 600.0})
    try:
        yield opened
    finally:
        opened.close()


def test_an_urgent_job_takes_a_place_at_once_and_the_other_goes_on_from_its_very_step(scene: Scene) -> None:
    low = scene.submit(steps=200, every_s=600.0, priority="low")
    scene.until_beating(low)
    began_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    urgent = scene.submit(steps=20, every_s=600.0, priority="high")
    scene.until_beating(urgent, at_least=1)
    assert scene.job(low)["room_for"] == urgent
    print(f"urgent job began after {scene.beats(urgent)[0][1] - began_s:.2f} s")
    assert scene.until_over(urgent)["phase"] == "succeeded"
    job = scene.until_over(low)
    assert (job["phase"], job["epoch"]) == ("succeeded", 2), scene.story(low)
    assert [(one["cause"], one["steps_redone"]) for one in job["migrations"]] == [("preempted", 0)]
    steps = [step for _, _, step in scene.beats(low)]
    assert steps == list(range(200))
    scene.check_trail(low)
    scene.check_audit()
    print(scene.story(low), scene.story(urgent), sep="\n\n")
