"""A job in an image of its own: refused where it cannot be had, and run where it can."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpunion.cli.demo.campus import Lab
from gpunion.domain.image import Image
from gpunion.wire.image_archive import reduce_archive
from tests.saved_images import a_layer, a_shell, save_image
from tests.system.scene import Scene

NAME = f"campus/train-{os.getpid()}:1"
PROGRAM = "read -r line < /etc/marker; echo it runs in $line"


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.requires(name)) for name in ("docker", "podman")]
)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def image(engine: str, tmp_path: Path) -> Iterator[tuple[Path, Image]]:
    marker = a_layer({"etc/marker": f"the image of {engine}\n".encode()})
    save_image(tmp_path / "saved.tar", a_shell(), marker, tags=(NAME,))
    digest = reduce_archive(tmp_path / "saved.tar", tmp_path / "reduced.tar", None)
    yield tmp_path / "reduced.tar", Image(name=NAME, digest=digest)
    subprocess.run([engine, "image", "rm", digest], capture_output=True)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "campus" / "full" / "images"
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_job_in_an_image_finds_the_node_that_can_have_it(
    tmp_path: Path, engine: str, image: tuple[Path, Image], full_disk: Path
) -> None:
    scene = Scene.open(tmp_path / "campus", labs=("plain",))
    try:
        for name, speed in (("full", 5.0), ("roomy", 1.0)):
            scene.campus.join(Lab(name=name, lab=name, model="TEST", memory_gib=8, speed=speed))
        scene.campus.start_agent("full", "roomy", GPUNION_RUNTIME=engine)
        archive, pinned = image
        with scene.campus.client() as client:
            client.add_image(pinned.ref, client.put_image_archive(archive))
            job = {"name": "train", "command": ["/bin/sh", "-c", PROGRAM], "image": NAME}
            answer = client.submit(job)
        refused = {verdict["node"]: verdict["code"] for verdict in answer["verdicts"]}
        assert refused["plain"] == "no_images_here"
        job_id = answer["job"]["id"]
        assert scene.until_over(job_id)["phase"] == "succeeded"
        story = scene.story(job_id)
        assert f"its image is {pinned.ref}" in story
        assert "full refused it: the image takes 0.0 GiB, and the disk lacks 1.0 GiB for it" in story
        assert "finished on roomy" in story
        assert list(full_disk.iterdir()) == []
        with scene.campus.client() as client:
            assert client.logs(job_id)["text"] == f"it runs in the image of {engine}\n"
        scene.check_audit()
    finally:
        scene.close()
