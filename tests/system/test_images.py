"""A job in an image of its own: refused where it cannot be had, run where it can, awaited where it goes."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpunion.agent.owner import client as owner_client
from gpunion.cli.demo.campus import Lab
from gpunion.domain.image import Image
from gpunion.sdk.client import Client
from gpunion.wire.image_archive import reduce_archive
from tests.saved_images import a_layer, a_shell, save_image
from tests.system.scene import LIMIT_S, PATIENT, Scene

NAME = f"campus/train-{os.getpid()}:1"
PROGRAM = "read -r line < /etc/marker; echo $GPUNION_RUN_EPOCH $line; exec sleep 1000"
NODES = (("full", "docker", 5.0), ("roomy", "docker", 2.0), ("next", "podman", 1.0))


@pytest.fixture
def image(tmp_path: Path) -> Iterator[tuple[Path, Image]]:
    layers = (a_shell("/bin/sh", "/bin/sleep"), a_layer({"etc/marker": b"in the image\n"}))
    save_image(tmp_path / "saved.tar", *layers, tags=(NAME,))
    digest = reduce_archive(tmp_path / "saved.tar", tmp_path / "reduced.tar", None)
    yield tmp_path / "reduced.tar", Image(name=NAME, digest=digest)
    for engine in ("docker", "podman"):
        subprocess.run([engine, "image", "rm", digest], capture_output=True)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "campus" / "full" / "images"
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.requires("docker", "podman")
def test_a_job_in_an_image_finds_the_node_that_can_have_it_and_the_image_waits_at_the_next(
    tmp_path: Path, image: tuple[Path, Image], full_disk: Path
) -> None:
    archive, pinned = image
    scene = Scene.open(tmp_path / "campus", labs=("plain",), timing={**PATIENT, "avoid_s": LIMIT_S})
    try:
        for name, _, speed in NODES:
            scene.campus.join(Lab(name=name, lab=name, model="TEST", memory_gib=8, speed=speed))
        for name, engine, _ in NODES:
            scene.campus.start_agent(name, GPUNION_RUNTIME=engine)
        with scene.campus.client() as client:
            client.add_image(pinned.ref, client.put_image_archive(archive))
            answer = client.submit({"name": "train", "command": ["/bin/sh", "-c", PROGRAM], "image": NAME})
        job_id = answer["job"]["id"]
        refused = {verdict["node"]: verdict["code"] for verdict in answer["verdicts"]}
        assert refused["plain"] == "no_images_here"

        scene.until(job_id, "running on roomy", lambda job: _runs_on(job, "roomy"))
        story = scene.story(job_id)
        assert f"its image is {pinned.ref}" in story
        assert re.search(r"full refused it: the image takes [^;]*, and the disk lacks [^;]* for it", story), (
            story
        )
        assert list(full_disk.iterdir()) == []

        _eventually("fetched ahead", lambda: _has("podman", pinned))  # nobody has run there yet
        owner_client.kill(scene.campus.state_dir("roomy"))
        moved = scene.until(job_id, "running on next", lambda job: _runs_on(job, "next"))
        printed = f"{moved['epoch']} in the image\n"
        with scene.campus.client() as client:
            _eventually("printed", lambda: printed in _all_printed(client, job_id))
            client.stop(job_id)
        scene.until_over(job_id)
        scene.check_audit()
    finally:
        scene.close()


def _runs_on(job: dict[str, object], node: str) -> bool:
    return (job["phase"], job["node_id"]) == ("running", node)


def _all_printed(client: Client, job_id: str) -> str:
    """A page ends where a run does."""
    text, page = "", client.logs(job_id)
    while page["text"]:
        text += page["text"]
        page = client.logs(job_id, offset=page["next_offset"])
    return text


def _has(engine: str, image: Image) -> bool:
    asked = subprocess.run([engine, "image", "inspect", f"sha256:{image.digest}"], capture_output=True)
    return asked.returncode == 0


def _eventually(what: str, happened: Callable[[], bool]) -> None:
    until_s = time.monotonic() + LIMIT_S
    while not happened():
        assert time.monotonic() < until_s, f"not {what} in {LIMIT_S} s"
        time.sleep(0.1)
