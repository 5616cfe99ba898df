"""A job that leaves has its state brought to where it goes while it is being saved, machine to machine."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpunion.agent.owner import client as owner_client
from tests.system.scene import LIMIT_S, PATIENT, Scene

pytestmark = [pytest.mark.xdist_group("ahead"), pytest.mark.timeout(300)]

JOB_FILE = Path(__file__).with_name("heavy_job.py")
BLOCKS = 18  # of 4 MiB: smaller states are not worth the trouble
# A loopback address of its own, so that nobody else listens there.
HOST = f"127.77.{os.getpid() // 250 % 250 + 1}.{os.getpid() % 250 + 1}"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    # Only the one it leaves has to open a port.
    listening = {"GPUNION_DATA_PORT": "8475", "GPUNION_DATA_HOST": HOST}
    opened = Scene.open(tmp_path / "campus", vault="campus", timing=PATIENT, environments={"a": listening})
    try:
        yield opened
    finally:
        opened.close()


def test_a_leaving_job_finds_its_state_where_it_goes(scene: Scene) -> None:
    job_id = submit(scene)
    scene.until(job_id, "a durable step", lambda job: job["durable"] is not None)
    saves = scene.campus.client().checkpoints(job_id)
    assert [save["ready_on"] for save in saves if save["ready_on"]] == [
        ["a"]
    ]  # it is kept where others may ask
    owner_client.reclaim(scene.campus.state_dir("a"), 100.0)
    ready = scene.campus.state_dir("b") / "cache" / "states" / job_id / "blocks"
    wait_for(lambda: len(list(ready.glob("*/*"))) >= BLOCKS, "the state did not come ahead of its job")
    wait_for(
        lambda: "save_followed" in scene.campus.log_of("a").read_text(), "b does not follow the save on a"
    )
    control_dir(scene, "a", f"{job_id}-e1").joinpath("go").touch()
    job = scene.until_over(job_id)
    story = scene.story(job_id)
    assert (job["phase"], job["epoch"]) == ("succeeded", 2), story
    found = [line for line in story.splitlines() if "bytes of its state lay ready on b" in line]
    assert found, story
    assert int(found[0].split()[1]) >= BLOCKS * 4 * 1024**2
    # Once it has left, the machine is its owner's: what b asks for after that comes from the vault.
    failed = [line for line in story.splitlines() if "could not fetch" in line]
    assert all("its owner has this machine" in line for line in failed), story
    # With its job it goes from both: from where it was brought, and from where it was kept.
    wait_for(lambda: not left_of(scene, job_id), "something is left of a job that is over")


def left_of(scene: Scene, job_id: str) -> list[Path]:
    places = (scene.campus.state_dir(name) / "cache" / "states" / job_id for name in "ab")
    return [place for place in places if place.exists()]


def wait_for(true: Callable[[], bool], otherwise: str) -> None:
    until_s = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < until_s, otherwise
        time.sleep(0.02)


def control_dir(scene: Scene, name: str, run_id: str) -> Path:
    note = scene.campus.state_dir(name) / "agent" / "runs" / f"{run_id}.json"
    return Path(json.loads(note.read_text())["control_dir"])


def submit(scene: Scene) -> str:
    client = scene.campus.client()
    job = {
        "name": "heavy",
        "command": ["python", JOB_FILE.name, str(BLOCKS)],
        "bundle": client.put_tree({JOB_FILE.name: JOB_FILE.read_bytes()}),
        "resources": {"gpus": 1, "cpus": 0.1, "memory": "256MiB"},
        "checkpoint": {"max_interval_s": 1.0},
    }
    return str(client.submit(job, idempotency_key="heavy")["job"]["id"])
