"""kill -9 of the coordinator right before and right after every commit of a small life of a job.

The life: submitted, placed, started, saved, its node reclaimed, moved, finished, its old node lent again. The
coordinator is started anew for every boundary with a crash planned at its n-th commit, and again afterwards.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpunion.agent.owner import client as owner_client
from tests.system.crashes import crashing
from tests.system.scene import LIMIT_S, Scene

# More boundaries than one such life has; the test ends when a planned crash did not come about any more.
MOST_BOUNDARIES = 60


@pytest.mark.xdist_group("coordinator-before")
@pytest.mark.timeout(400)
def test_nothing_is_lost_when_it_dies_before_a_commit(tmp_path: Path) -> None:
    assert _every_boundary(tmp_path, "before") >= 8


@pytest.mark.xdist_group("coordinator-after")
@pytest.mark.timeout(400)
def test_nothing_is_lost_when_it_dies_after_a_commit(tmp_path: Path) -> None:
    assert _every_boundary(tmp_path, "after") >= 8


def _every_boundary(root: Path, side: str) -> int:
    """Returns at how many boundaries it died."""
    scene = Scene.open(root / "campus", timing={"lease_s": 8.0})
    try:
        for number in range(1, MOST_BOUNDARIES):
            scene.campus.stop_coordinator()
            with crashing(scene, f"{number}:{side}") as crashed:
                _one_life(scene)
            if not crashed.is_set():
                return number - 1
        raise AssertionError("the life never ran out of commits")
    finally:
        scene.close()


def _one_life(scene: Scene) -> None:
    job_id = scene.submit(steps=14, step_s=0.04, every_s=1.0)
    scene.until_beating(job_id)
    owner_client.reclaim(scene.campus.state_dir("a"), 6.0)
    job = scene.until_over(job_id)
    assert job["phase"] == "succeeded", scene.story(job_id)
    scene.check_trail(job_id)
    scene.check_audit()
    owner_client.resume(scene.campus.state_dir("a"))
    until_s = time.monotonic() + LIMIT_S
    while any(node["phase"] != "sharing" for node in scene.patiently(lambda: scene.campus.client().nodes())):
        assert time.monotonic() < until_s, "the nodes did not come back"
        time.sleep(0.05)
