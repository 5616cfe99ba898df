"""Nodes that share no folder with anybody: checkpoints go through the coordinator, a difference at a time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpunion.agent.owner import client as owner_client
from gpunion.vault.job_directories import decode_record
from tests.system.scene import Scene

pytestmark = [pytest.mark.xdist_group("vault-elsewhere"), pytest.mark.timeout(300)]

# Longer than a save can take on a busy machine: who is saved sooner leaves sooner.
NOTICE_S = 60.0


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    opened = Scene.open(tmp_path / "campus", vault="campus", timing={"lease_s": 60.0})
    try:
        yield opened
    finally:
        opened.close()


def test_a_reclaimed_guest_goes_on_elsewhere_with_nothing_lost(scene: Scene) -> None:
    job_id = scene.submit(steps=200)
    scene.until(job_id, "a durable step", lambda job: job["durable"] is not None)
    owner_client.reclaim(scene.campus.state_dir("a"), NOTICE_S)
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


def test_an_encrypted_job_moves_and_nobody_but_its_nodes_is_told_the_key(scene: Scene) -> None:
    job_id = scene.submit(steps=200, encrypt=True)  # it is not over before it is asked to go
    scene.until(job_id, "a durable step", lambda job: job["durable"] is not None)
    key = key_of(scene, job_id)
    note = next((scene.campus.state_dir("a") / "agent" / "runs").glob(f"{job_id}*.json"))
    assert key in note.read_text()
    assert note.stat().st_mode & 0o077 == 0
    owner_client.reclaim(scene.campus.state_dir("a"), NOTICE_S)
    job = scene.until_over(job_id)
    assert (job["phase"], job["epoch"]) == ("succeeded", 2), scene.story(job_id)
    scene.check_trail(job_id)
    steps = [step for _, _, step in scene.beats(job_id)]
    assert steps == sorted(set(steps)), "a step was done twice"

    client = scene.campus.client()
    answer = client.output(job_id)
    (name,) = next(entry for entry in decode_record(answer) if entry.path == "count.json").blocks
    assert dict(client.output_blocks(job_id, answer["checkpoint_id"], [name])) == {name: b'{"value": 200}'}

    told = [job, answer, client.why(job_id), client.checkpoints(job_id), client.jobs()]
    assert key not in json.dumps(told)
    for log in ("coordinator", "a", "b"):
        assert key not in scene.campus.log_of(log).read_text()
    assert job["checkpoint"]["encrypt"]
    # The code that travels is no checkpoint and lies beside it.
    mirrors = [scene.campus.state_dir(name) / "cache" / "vault" for name in "ab"]
    for place in (scene.campus.vault_dir, *mirrors):
        stored = contents(place)
        assert stored
        assert not [secret for secret in (b"count.json", b'"value"', key.encode()) if secret in stored]
    limit_s = time.monotonic() + 60
    while list(scene.campus.state_dir("b").glob(f"agent/runs/{job_id}*")):
        assert time.monotonic() < limit_s, "the key stays on the node when its run is over"
        time.sleep(0.05)


def contents(place: Path) -> bytes:
    """Of all files there, without those that an agent removed while they were listed."""
    found = []
    for folder, _, names in os.walk(place):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found.append(Path(folder, name).read_bytes())
    return b"".join(found)


def key_of(scene: Scene, job_id: str) -> str:
    with contextlib.closing(sqlite3.connect(scene.campus.data_dir / "gpunion.db")) as database:
        (body,) = database.execute("SELECT body FROM jobs WHERE id = ?", [job_id]).fetchone()
    key = str(json.loads(body)["vault_key"])
    assert len(bytes.fromhex(key)) == 32
    return key
