"""Checkpoints in a bucket that some machines reach and others do not, over HTTP from real processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpunion.agent.owner import client as owner_client
from gpunion.sdk.errors import ClientError
from tests.s3_server import S3Server, s3_server
from tests.system.scene import LIMIT_S, PATIENT, Scene

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
        timing=PATIENT,
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


def test_a_job_lives_in_the_places_it_chose_where_they_are_reached_and_outlives_one_that_is_away(
    scene: Scene, server: S3Server
) -> None:
    client = scene.campus.client()
    with pytest.raises(ClientError, match="there are bucket, campus"):
        scene.submit(place="buckets")
    job_id = scene.submit(steps=100_000, place="bucket", replicas=2, key="first")
    job = scene.until(job_id, "a durable step", lambda job: job["durable"] is not None)
    assert (job["node_id"], job["places"]) == ("a", ["bucket", "campus"])
    wait_for(lambda: ["bucket", "campus"] in lies_in(scene, job_id), "a checkpoint is copied")

    full = ("507 Insufficient Storage", "XMinioStorageFull")
    server.trouble = lambda method, path: full if method == "PUT" and "/blocks/" in path else None
    wait_for(lambda: "saved_elsewhere" in told(scene, job_id), "a save goes into the campus's vault instead")
    wait_for(lambda: ["campus"] in lies_in(scene, job_id), "and lies there alone")

    server.trouble = lambda method, path: ("503 Away", "SlowDown")
    owner_client.reclaim(scene.campus.state_dir("a"), 60.0)
    moved = scene.until(job_id, "moved", lambda job: job["epoch"] == 2 and job["phase"] == "running")
    server.trouble = lambda method, path: None
    scene.check_trail(job_id)
    first, second = sorted(moved["runs"], key=lambda run: run["epoch"])
    assert (first["node_id"], second["node_id"]) == ("a", "b")
    assert second["resumed_step"] >= job["durable"]["step"], scene.story(job_id)

    owner_client.reclaim(scene.campus.state_dir("b"), 1.0)
    client.stop(job_id)
    waiting = scene.submit(place="bucket", key="second")
    verdicts = {verdict["node"]: verdict for verdict in client.why(waiting)["verdicts"]}
    assert verdicts["c"]["code"] == "place_not_reached"
    assert (
        verdicts["c"]["sentence"]
        == "it does not reach bucket, where the job's checkpoints lie, or finds it full"
    )
    for log in ("coordinator", "a", "b", "c"):
        assert SECRET not in scene.campus.log_of(log).read_text()


def lies_in(scene: Scene, job_id: str) -> list[list[str]]:
    return [found["places"] for found in scene.campus.client().checkpoints(job_id)]


def told(scene: Scene, job_id: str) -> set[str]:
    story = scene.patiently(lambda: scene.campus.client().why(job_id))["story"]
    return {line["code"] for line in story}
