"""Nodes that share no folder with anybody: checkpoints go through the coordinator, a difference at a time."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpunion.agent import owner_client
from tests.system.scene import Scene

pytestmark = [pytest.mark.xdist_group("vault-elsewhere"), pytest.mark.timeout(300)]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    opened = Scene.open(tmp_path / "campus", vault="campus")
    try:
        yield opened
    finally:
        opened.close()


def test_a_reclaimed_guest_goes_on_elsewhere_with_nothing_lost(scene: Scene) -> None:
    job_id = scene.submit(steps=120)
    scene.until(job_id, "a durable step", lambda job: job["durable"] is not None)
    owner_client.reclaim(scene.campus.state_dir("a"), 10.0)
    job = scene.until_over(job_id)
    assert job["phase"] == "succeeded", scene.story(job_id)
    assert job["epoch"] == 2, scene.story(job_id)
    scene.check_trail(job_id)
    steps = [step for _, _, step in scene.beats(job_id)]
    assert steps == sorted(set(steps)), "a step was done twice"
    # Nothing but a mirror is on the nodes; what is durable is where the coordinator is.
    assert list((scene.campus.vault_dir / "jobs" / job_id / "manifests").iterdir())
    assert (scene.campus.state_dir("b") / "cache" / "vault" / "vault.json").exists()


def test_a_coordinator_that_is_away_for_a_moment_costs_no_checkpoint(scene: Scene) -> None:
    job_id = scene.submit(steps=160, every_s=0.5)
    scene.until(job_id, "a durable step", lambda job: job["durable"] is not None)
    scene.campus.stop_coordinator(signal.SIGKILL)
    scene.campus.start_coordinator()
    job = scene.until_over(job_id)
    assert job["phase"] == "succeeded", scene.story(job_id)
    assert job["epoch"] == 1, scene.story(job_id)
    scene.check_trail(job_id)
