"""kill -9 of an agent in each state of a run, with and without its guest."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpunion.agent.owner import client as owner_client
from tests.system.scene import PATIENT, Scene

pytestmark = [pytest.mark.xdist_group("agents-killed"), pytest.mark.timeout(300)]

# A guest that ignored its deadline would go on until the lease ends: later than any machine is late.
NOTICE_S, LATE_S, LONG_LEASE_S = 3.0, 5.0, 12.0


@pytest.fixture
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """With other waits than the usual ones, where a test gives them as the parameter."""
    opened = Scene.open(tmp_path / "campus", timing=getattr(request, "param", None))
    try:
        yield opened
    finally:
        opened.close()


def _restart(scene: Scene, name: str) -> None:
    scene.campus.stop_agent(name, signal.SIGKILL)
    scene.campus.start_agent(name)


def _finish(scene: Scene, job_id: str) -> dict[str, object]:
    job = scene.until_over(job_id)
    assert job["phase"] == "succeeded", scene.story(job_id)
    scene.check_trail(job_id)
    scene.check_audit()
    return job


def test_an_agent_killed_while_its_guest_starts_loses_nothing(scene: Scene) -> None:
    job_id = scene.submit()
    scene.until(job_id, "placed", lambda job: bool(job["runs"]))
    _restart(scene, "a")
    _finish(scene, job_id)


@pytest.mark.parametrize("scene", [PATIENT], indirect=True, ids=["patient"])
def test_a_running_guest_is_adopted_by_the_next_agent_and_not_started_twice(scene: Scene) -> None:
    job_id = scene.submit(steps=60)
    scene.until_beating(job_id)
    _restart(scene, "a")
    job = _finish(scene, job_id)
    assert job["epoch"] == 1, scene.story(job_id)


def test_an_agent_killed_while_a_save_is_under_way_loses_nothing(scene: Scene) -> None:
    job_id = scene.submit(steps=80, every_s=1.0)
    scene.until(job_id, "a durable step", lambda job: job["durable"] is not None)
    _restart(scene, "a")
    _finish(scene, job_id)


@pytest.mark.parametrize("scene", [{"lease_s": LONG_LEASE_S}], indirect=True, ids=["long-lease"])
def test_an_agent_killed_in_a_notice_still_keeps_the_deadline(scene: Scene) -> None:
    job_id = scene.submit(steps=300)  # longer than the notice and all lateness: it does not end by itself
    scene.until_beating(job_id)
    owner_client.reclaim(scene.campus.state_dir("a"), NOTICE_S)
    deadline_s = time.clock_gettime(time.CLOCK_BOOTTIME) + NOTICE_S
    scene.campus.stop_agent("a", signal.SIGKILL)
    job = scene.until(job_id, "moved", lambda job: job["epoch"] >= 2)
    first = [at_s for epoch, at_s, _ in scene.beats(job_id) if epoch == 1]
    # The keeper needs no agent; what it adds to the deadline is one look at its clock.
    assert max(first) <= deadline_s + LATE_S
    assert job["epoch"] >= 2
    scene.campus.start_agent("a")
    _finish(scene, job_id)


def test_a_guest_outlives_its_dead_agent_only_until_the_lease_ends(scene: Scene) -> None:
    job_id = scene.submit(steps=200)
    scene.until_beating(job_id)
    os.kill(scene.campus.agent("a").pid, signal.SIGKILL)
    scene.until(job_id, "running elsewhere", lambda job: job["epoch"] >= 2 and job["phase"] == "running")
    _finish(scene, job_id)


def test_a_machine_that_loses_power_costs_no_more_than_the_work_since_the_last_save(scene: Scene) -> None:
    job_id = scene.submit(steps=100)
    job = scene.until(job_id, "a durable step", lambda job: job["durable"] is not None)
    durable = int(job["durable"]["step"])
    scene.campus.lose_power("a")
    scene.until(job_id, "running again", lambda job: job["epoch"] >= 2 and job["phase"] == "running")
    _finish(scene, job_id)
    resumed = min(step for epoch, _, step in scene.beats(job_id) if epoch == 2)
    assert resumed >= durable
