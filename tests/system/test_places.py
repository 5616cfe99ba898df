"""Checkpoints in a bucket that some machines reach and others do not, over HTTP from real processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpunion.agent import owner_client
from gpunion.sdk.errors import ClientError
from gpunion.wire.trees import decode_record
from tests.s3_server import S3Server, s3_server
from tests.system.scene import LIMIT_S, Scene

pytestmark = [pytest.mark.xdist_group("places"), pytest.mark.timeout(300), pytest.mark.requires("s3")]

SECRET = "a-secret-of-the-bucket"
CREDENTIALS = {"CAMPUS_S3_ACCESS_KEY_ID": "campus", "CAMPUS_S3_SECRET_ACCESS_KEY": SECRET}


@pytest.fixture
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        running.make_bucket("checkpoints")
        yield running


@pytest.fixture
def scene(tmp_path: Path, server: S3Server) -> Iterator[Scene]:
    config = tmp_path / "campus.toml"
    config.write_text(
        f'[places.bucket]\nkind = "s3"\nbucket = "checkpoints"\nendpoint = "{server.url}"\n'
        'credentials = "env:CAMPUS_S3"\n'
    )
    opened = Scene.open(
        tmp_path / "campus",
        ("c", "a", "b"),  # c would be the fastest, and has no credentials
        config=config,
        environments={"coordinator": CREDENTIALS, "a": CREDENTIALS, "b": CREDENTIALS},
    )
    try:
        wait_for(lambda: reached_by(opened, "bucket") == ["a", "b"], "a and b reach the bucket")
        yield opened
    finally:
        opened.close()


def reached_by(scene: Scene, name: str) -> list[str]:
    found = scene.patiently(lambda: scene.campus.client().places())["places"]
    return [node for place in found if place["name"] == name for node in place["reached_by"]]


def wait_for(true: Callable[[], bool], what: str) -> None:
    until_s = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < until_s, f"not within {LIMIT_S} s: {what}"
        time.sleep(0.05)


def test_a_job_lives_in_the_bucket_it_chose_and_only_where_that_is_reached(
    scene: Scene, server: S3Server
) -> None:
    with pytest.raises(ClientError, match="there are bucket, campus"):
        scene.submit(place="buckets")
    job_id = scene.submit(steps=80, place="bucket", key="first")
    job = scene.until(job_id, "a durable step", lambda job: job["durable"] is not None)
    assert (job["node_id"], job["places"]) == ("a", ["bucket"])
    owner_client.reclaim(scene.campus.state_dir("a"), 10.0)
    job = scene.until_over(job_id)
    assert (job["phase"], job["epoch"]) == ("succeeded", 2), scene.story(job_id)
    scene.check_trail(job_id)
    steps = [step for _, _, step in scene.beats(job_id)]
    assert steps == sorted(set(steps)), "a step was done twice"
    assert not (scene.campus.vault_dir / "jobs" / job_id).exists()
    assert any(f"/jobs/{job_id}/ledger.json" in path for _, path in server.requests)

    client = scene.campus.client()
    answer = client.output(job_id)
    (name,) = next(entry for entry in decode_record(answer) if entry.path == "count.json").blocks
    assert dict(client.output_blocks(job_id, answer["checkpoint_id"], [name])) == {name: b'{"value": 80}'}

    owner_client.reclaim(scene.campus.state_dir("b"), 1.0)
    waiting = scene.submit(place="bucket", key="second")
    verdicts = {verdict["node"]: verdict for verdict in client.why(waiting)["verdicts"]}
    assert verdicts["c"]["code"] == "place_not_reached"
    assert verdicts["c"]["sentence"] == "it does not reach bucket, where the job's checkpoints lie"
    for log in ("coordinator", "a", "b", "c"):
        assert SECRET not in scene.campus.log_of(log).read_text()
