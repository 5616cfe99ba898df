"""Checkpoints on the disk of a machine of the campus, handed over by the agents of others."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpunion.agent.owner import client as owner_client
from tests.system.scene import LIMIT_S, PATIENT, Scene

pytestmark = [pytest.mark.xdist_group("keeper"), pytest.mark.timeout(300)]

# A loopback address of its own, so that nobody else listens there.
HOST = f"127.78.{os.getpid() // 250 % 250 + 1}.{os.getpid() % 250 + 1}"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    config = tmp_path / "campus.toml"
    config.write_text('[places.attic]\nkind = "node"\nnode = "box"\n')
    keeps = f'[keeps]\ndirectory = "{tmp_path}/disk"\nlimit = "1 GB"\nport = 8476\nhost = "{HOST}"\n'
    opened = Scene.open(
        tmp_path / "campus", ("a", "b", "box"), timing=PATIENT, config=config, settings={"box": keeps}
    )
    try:
        wait_for(lambda: attic(opened)["reached_by"] == ["a", "b", "box"], "all reach the attic")
        yield opened
    finally:
        opened.close()


def attic(scene: Scene) -> dict[str, object]:
    found = scene.patiently(lambda: scene.campus.client().places())["places"]
    return next(place for place in found if place["name"] == "attic")


def wait_for(true: Callable[[], bool], what: str) -> None:
    until_s = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < until_s, f"not within {LIMIT_S} s: {what}"
        time.sleep(0.05)


def test_a_job_is_saved_on_another_machine_moves_and_waits_for_it(scene: Scene, tmp_path: Path) -> None:
    shown = attic(scene)
    assert shown["where"] == "on the disk of box"
    assert not {"admission", "key"} & set(shown["settings"])  # type: ignore[call-overload]
    job_id = scene.submit(steps=100_000, place="attic")
    job = scene.until(job_id, "a durable step", lambda job: job["durable"] is not None)
    assert (job["node_id"], job["places"]) == ("a", ["attic"])
    assert list(tmp_path.glob(f"disk/jobs/{job_id}/manifests/*.json"))
    assert not list(tmp_path.glob(f"campus/**/vault/jobs/{job_id}"))
    lies_in = {place for found in scene.campus.client().checkpoints(job_id) for place in found["places"]}
    assert lies_in == {"attic"}

    owner_client.reclaim(scene.campus.state_dir("a"), 60.0)
    moved = scene.until(job_id, "moved", lambda job: job["epoch"] == 2 and job["phase"] == "running")
    first, second = sorted(moved["runs"], key=lambda run: run["epoch"])
    assert (first["node_id"], second["node_id"]) == ("a", "b")
    assert second["resumed_step"] >= job["durable"]["step"], scene.story(job_id)

    scene.campus.stop_agent("box", signal.SIGKILL)
    wait_for(lambda: "save_failed" in told(scene, job_id), "a save without the machine that keeps it fails")
    scene.campus.start_agent("box")
    before = scene.job(job_id)["durable"]["step"]
    scene.until(job_id, "saved again", lambda job: job["durable"]["step"] > before)
    assert scene.job(job_id)["epoch"] == 2
    scene.check_trail(job_id)
    scene.check_audit()
    status = owner_client.status(scene.campus.state_dir("box"))["status"]["keeps"]
    assert (status["places"], status["open"], status["trouble"]) == (["attic"], True, "")
    secrets = scene.campus.state_dir("a") / "agent" / "places.json"
    assert secrets.stat().st_mode & 0o077 == 0


def told(scene: Scene, job_id: str) -> set[str]:
    story = scene.patiently(lambda: scene.campus.client().why(job_id))["story"]
    return {line["code"] for line in story}
