"""What an image's makers meant to be run, in runtimes that run images; the others say that they do not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gpunion.adapters.runtimes.containers.images import EngineImages
from gpunion.adapters.runtimes.containers.runtime import ContainerRuntime
from gpunion.domain.image import Image
from gpunion.ports.runtime import ExitReason, GuestSpec, RuntimeFault
from gpunion.wire.image_archive import reduce_archive
from tests.contract.runtime.conftest import Campus
from tests.saved_images import a_layer, a_shell, save_image

# Numbers that no account has; others for each process, since one user is one guest's at a time.
TRAINER = 61_200 + os.getpid() % 4000
TRAINERS = TRAINER + 1
FILES = {
    "srv/app/start.sh": b'echo "ran: $*"; echo "in $PWD as $(id -u)"; echo "$GREETING, $LANG, $PYTHONPATH"\n',
    "etc/passwd": f"root:x:0:0::/:/bin/sh\ntrainer:x:{TRAINER}:{TRAINERS}::/:/bin/sh\n".encode(),
    "etc/group": f"root:x:0:\ntrainers:x:{TRAINERS}:\n".encode(),
}
SETTINGS: dict[str, Any] = {
    "Entrypoint": ["/bin/sh", "/srv/app/start.sh"],
    "Cmd": ["by", "itself"],
    "User": str(TRAINER),
    "WorkingDir": "/srv/app",
    "Env": ["PATH=/usr/bin:/bin", "GREETING=good morning", "LANG=de_DE.UTF-8", "PYTHONPATH=/srv/modules"],
}


class Images:
    def __init__(self, campus: Campus, engine: EngineImages, folder: Path) -> None:
        self.campus = campus
        self._engine = engine
        self._folder = folder
        self._made: list[str] = []

    def make(self, **settings: Any) -> str:
        """An image with these settings over those above, loaded where there is an engine."""
        layers = a_shell("/bin/sh", "/usr/bin/id", "/usr/bin/echo"), a_layer(FILES)
        save_image(self._folder / "saved.tar", *layers, settings=SETTINGS | settings)
        digest = reduce_archive(self._folder / "saved.tar", self._folder / "image.tar", None)
        self._engine.load(self._folder / "image.tar")
        self._made.append(digest)
        return Image(name="campus/app", digest=digest).ref

    async def said(self, image: str, *command: str, **changes: Any) -> list[str]:
        """What a guest in it said, once it has ended."""
        spec = self.guest(image, *command, **changes)
        await self.campus.runtime.start(spec)
        status = await self.campus.runtime.wait_exit(spec.run_id)
        log_file = (await self.campus.runtime.prepare(spec)).log_file
        assert status.exit_reason is ExitReason.EXITED, log_file.read_text()
        return log_file.read_text().splitlines()

    def guest(self, image: str, *command: str, **changes: Any) -> GuestSpec:
        fields: dict[str, Any] = {"command": command, "begins_in_work": bool(command)}
        return self.campus.guest("runs on", image=image, **(fields | changes))

    async def remove(self) -> None:
        for status in await self.campus.runtime.guests():
            await self.campus.runtime.kill(status.run_id, ExitReason.STOPPED)
            await self.campus.runtime.remove(status.run_id)
        for digest in dict.fromkeys(self._made):
            await asyncio.to_thread(self._engine.remove, digest)


@pytest.fixture
async def images(campus: Campus, tmp_path: Path) -> AsyncIterator[Images]:
    if not isinstance(campus.runtime, ContainerRuntime):
        pytest.skip("it runs no images: the last test here is about that")
    images = Images(campus, campus.runtime.images, tmp_path)
    yield images
    await images.remove()


async def test_without_a_command_an_image_runs_as_its_makers_meant_it(images: Images) -> None:
    said = await images.said(images.make())
    assert said[:2] == ["ran: by itself", f"in /srv/app as {TRAINER}"]
    greeting, language, modules = said[2].split(", ")
    assert (greeting, language) == ("good morning", "de_DE.UTF-8")
    assert modules.endswith(":/srv/modules")


async def test_a_command_comes_after_the_entry_point_and_begins_beside_what_travelled(images: Images) -> None:
    said = await images.said(images.make(), "--epochs", "3")
    assert said[:2] == ["ran: --epochs 3", f"in /gpunion/scratch/work as {TRAINER}"]


async def test_an_entry_point_of_the_jobs_own_leaves_nothing_of_the_images(images: Images) -> None:
    assert await images.said(images.make(), entrypoint=("echo", "mine")) == ["mine"]


async def test_with_no_entry_point_at_all_the_command_runs_alone(images: Images) -> None:
    assert await images.said(images.make(), "echo", "alone", entrypoint=()) == ["alone"]


async def test_what_saves_a_program_from_outside_stands_in_front_of_the_entry_point(images: Images) -> None:
    said = await images.said(images.make(), wrapper=("echo", "saved:"))
    assert said == ["saved: /bin/sh /srv/app/start.sh by itself"]


async def test_the_jobs_own_variables_win_over_the_images(images: Images) -> None:
    said = await images.said(images.make(), environment={"GREETING": "good night", "LANG": "C"})
    assert said[2].startswith("good night, C, ")


async def test_a_user_is_looked_up_in_the_images_own_lists(images: Images) -> None:
    said = await images.said(images.make(User="trainer:trainers"))
    assert said[1] == f"in /srv/app as {TRAINER}"


@pytest.mark.parametrize("user", ["", "root", "0:0"])
async def test_root_is_nobody_in_particular(images: Images, user: str) -> None:
    image = images.make(User=user, Entrypoint=["/usr/bin/id", "-u"], Cmd=None)
    assert await images.said(image) != ["0"]


@pytest.mark.parametrize("user", ["70000", "nosuchname", "trainer:nosuchgroup"])
async def test_a_user_that_cannot_be_given_is_refused_in_words(images: Images, user: str) -> None:
    spec = images.guest(images.make(User=user))
    with pytest.raises(RuntimeFault, match=f"the image's user is {user}") as fault:
        await images.campus.runtime.start(spec)
    assert not fault.value.temporary


async def test_an_image_that_says_nothing_to_run_is_refused_in_words(images: Images) -> None:
    spec = images.guest(images.make(Entrypoint=None, Cmd=None))
    with pytest.raises(RuntimeFault, match="nothing is to be run") as fault:
        await images.campus.runtime.start(spec)
    assert not fault.value.temporary


async def test_a_directory_that_is_not_there_is_told_in_the_log(images: Images) -> None:
    # An engine makes the directory of an image that is saved; a file in its place stays one.
    said = await images.said(images.make(WorkingDir="/srv/app/start.sh"))
    assert said == ["cannot begin in /srv/app/start.sh"]


async def test_a_runtime_without_images_says_so_and_runs_nothing(campus: Campus) -> None:
    if isinstance(campus.runtime, ContainerRuntime):
        pytest.skip("it runs images: the other tests here are about that")
    spec = campus.guest("runs on", image=f"campus/app@sha256:{'0' * 64}", command=())
    with pytest.raises(RuntimeFault, match="no images in a sandbox") as fault:
        await campus.runtime.start(spec)
    assert not fault.value.temporary
    assert await campus.runtime.status(spec.run_id) is None or not (await campus.runtime.guests())[0].alive
