"""The owner's word with the coordinator stopped, the agent stopped, or both: it counts the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpunion.agent.owner import client as owner_client
from gpunion.owner_kill.guest import guest_dirs, lives
from tests.system.scene import LIMIT_S, PATIENT, Scene

pytestmark = [pytest.mark.xdist_group("owner-alone"), pytest.mark.timeout(300)]

NOTICE_S = 60.0  # longer than a save can take on a busy machine: who is saved sooner leaves sooner


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    opened = Scene.open(tmp_path / "campus", timing=PATIENT)
    try:
        yield opened
    finally:
        opened.close()


def _status(scene: Scene) -> dict[str, Any]:
    status: dict[str, Any] = owner_client.status(scene.campus.state_dir("a"))["status"]
    return status


def _until_tenure(scene: Scene, tenure: str) -> float:
    began_s = time.monotonic()
    while _status(scene)["tenure"] != tenure:
        assert time.monotonic() - began_s < LIMIT_S, _status(scene)
        time.sleep(0.05)
    return time.monotonic() - began_s


def _living(scene: Scene) -> list[str]:
    return [guest for guest in guest_dirs(str(scene.campus.state_dir("a"))) if lives(guest)]


def _until_nobody_lives(scene: Scene) -> None:
    """The program is gone; what kept it may need a moment more to put its books in order."""
    until_s = time.monotonic() + LIMIT_S
    while _living(scene):
        assert time.monotonic() < until_s, _living(scene)
        time.sleep(0.05)


@pytest.mark.parametrize("coordinator", ["up", "stopped"])
def test_reclaim_saves_the_guest_and_frees_the_machine(scene: Scene, coordinator: str) -> None:
    job_id = scene.submit(steps=200)
    scene.until_beating(job_id, 10)
    if coordinator == "stopped":
        scene.campus.stop_coordinator(signal.SIGKILL)
    owner_client.reclaim(scene.campus.state_dir("a"), NOTICE_S)
    assert _until_tenure(scene, "reclaimed") < NOTICE_S
    _until_nobody_lives(scene)
    last = max(step for _, _, step in scene.beats(job_id))
    if coordinator == "stopped":
        scene.campus.start_coordinator()
    job = scene.until(job_id, "running on b", lambda job: job["epoch"] >= 2 and job["phase"] == "running")
    assert job["runs"][-1]["resumed_step"] == last + 1, "a notice long enough must lose no step"
    scene.until_over(job_id)
    scene.check_trail(job_id)


@pytest.mark.parametrize("coordinator", ["up", "stopped"])
def test_pause_keeps_the_guest_and_takes_no_other(scene: Scene, coordinator: str) -> None:
    job_id = scene.submit(steps=150)
    scene.until_beating(job_id)
    if coordinator == "stopped":
        scene.campus.stop_coordinator(signal.SIGKILL)
    owner_client.pause(scene.campus.state_dir("a"))
    assert _status(scene)["tenure"] == "paused"
    assert len(_living(scene)) == 1
    if coordinator == "stopped":
        scene.campus.start_coordinator()
    other = scene.submit(steps=5)
    scene.until_over(other)
    assert [run["node_id"] for run in scene.job(other)["runs"]] == ["b"]
    scene.until_over(job_id)
    scene.check_trail(job_id)


@pytest.mark.parametrize("stopped", ["nobody", "coordinator", "agent", "both"])
def test_kill_ends_every_guest_at_once_and_none_comes_back(scene: Scene, stopped: str) -> None:
    job_id = scene.submit(steps=150)
    scene.until(job_id, "a durable step", lambda job: job["durable"] is not None)
    if stopped in ("coordinator", "both"):
        scene.campus.stop_coordinator(signal.SIGKILL)
    if stopped in ("agent", "both"):
        os.kill(scene.campus.agent("a").pid, signal.SIGSTOP)
    killed = subprocess.run(
        [sys.executable, "-m", "gpunion", "kill", "--state-dir", str(scene.campus.state_dir("a")), "--json"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    killed_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert killed.returncode == 0, killed.stderr
    assert _living(scene) == []
    os.kill(scene.campus.agent("a").pid, signal.SIGCONT)
    if stopped in ("coordinator", "both"):
        scene.campus.start_coordinator()
    job = scene.until_over(job_id)
    assert job["phase"] == "succeeded", scene.story(job_id)
    assert max(at_s for epoch, at_s, _ in scene.beats(job_id) if epoch == 1) <= killed_s
    assert all(run["node_id"] == "b" for run in job["runs"][1:])
    assert _status(scene)["tenure"] == "reclaimed"
    scene.check_trail(job_id)
    owner_client.resume(scene.campus.state_dir("a"))
    assert _status(scene)["tenure"] == "sharing"
