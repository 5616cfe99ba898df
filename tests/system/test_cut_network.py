"""A node whose cable is cut: shortly, for longer than its lease, and while its owner reclaims it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpunion.agent.owner import client as owner_client
from tests.system.cable import Cable
from tests.system.scene import PATIENT, Scene

pytestmark = [pytest.mark.xdist_group("cut-network"), pytest.mark.timeout(300)]

# A guest that ignored its deadline would go on until the lease ends: later than any machine is late.
NOTICE_S, LATE_S, LONG_LEASE_S = 3.0, 5.0, 12.0


@pytest.fixture
def cut_scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Scene, Cable]]:
    """With other waits than the usual ones, where a test gives them as the parameter."""
    scene = Scene.open(tmp_path / "campus", timing=getattr(request, "param", None))
    cable = Cable(int(scene.campus.url.rsplit(":", 1)[1]))
    try:
        scene.campus.stop_agent("a")
        scene.campus.start_agent("a", GPUNION_COORDINATOR=cable.url)
        yield scene, cable
    finally:
        cable.close()
        scene.close()


@pytest.mark.parametrize("cut_scene", [PATIENT], indirect=True, ids=["patient"])
def test_a_short_cut_moves_nobody(cut_scene: tuple[Scene, Cable]) -> None:
    scene, cable = cut_scene
    job_id = scene.submit(steps=120)
    scene.until_beating(job_id)
    cable.cut()
    time.sleep(1.0)
    cable.mend()
    job = scene.until_over(job_id)
    assert job["phase"] == "succeeded", scene.story(job_id)
    assert job["epoch"] == 1, scene.story(job_id)
    scene.check_trail(job_id)


def test_a_long_cut_ends_the_guest_before_it_is_restarted(cut_scene: tuple[Scene, Cable]) -> None:
    scene, cable = cut_scene
    job_id = scene.submit(steps=300)
    scene.until_beating(job_id)
    cable.cut()
    scene.until(job_id, "running on b", lambda job: job["epoch"] >= 2 and job["phase"] == "running")
    cable.mend()
    job = scene.until_over(job_id)
    assert job["phase"] == "succeeded", scene.story(job_id)
    scene.check_trail(job_id)
    scene.check_audit()


@pytest.mark.parametrize("cut_scene", [{"grace_s": 8.0}], indirect=True, ids=["long-grace"])
def test_a_save_taken_when_the_lease_ended_is_used_though_nobody_heard_of_it(
    cut_scene: tuple[Scene, Cable],
) -> None:
    scene, cable = cut_scene
    job_id = scene.submit(steps=300, every_s=3600.0)  # no periodic save: only the lease's end saves
    scene.until_beating(job_id, 10)
    cable.cut()
    job = scene.until(job_id, "running on b", lambda job: job["epoch"] >= 2 and job["phase"] == "running")
    last = max(step for epoch, _, step in scene.beats(job_id) if epoch == 1)
    assert job["runs"][-1]["resumed_step"] == last + 1, scene.story(job_id)
    cable.mend()
    scene.until_over(job_id)
    scene.check_trail(job_id)


@pytest.mark.parametrize("cut_scene", [{"lease_s": LONG_LEASE_S}], indirect=True, ids=["long-lease"])
def test_a_reclaim_behind_a_cut_cable_keeps_its_deadline(cut_scene: tuple[Scene, Cable]) -> None:
    scene, cable = cut_scene
    job_id = scene.submit(steps=300)
    scene.until_beating(job_id, 5)
    cable.cut()
    owner_client.reclaim(scene.campus.state_dir("a"), NOTICE_S)
    deadline_s = time.clock_gettime(time.CLOCK_BOOTTIME) + NOTICE_S
    scene.until(job_id, "running on b", lambda job: job["epoch"] >= 2 and job["phase"] == "running")
    assert max(at_s for epoch, at_s, _ in scene.beats(job_id) if epoch == 1) <= deadline_s + LATE_S
    cable.mend()
    job = scene.until_over(job_id)
    assert job["phase"] == "succeeded", scene.story(job_id)
    scene.check_trail(job_id)
