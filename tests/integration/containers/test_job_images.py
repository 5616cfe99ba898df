"""The image a job is pinned to, in real engines: loaded from a file, checked, used, and removed."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpunion.adapters.containers.images import EngineImages
from gpunion.domain.image import Image
from gpunion.ports.runtime import RuntimeFault
from gpunion.wire.image_archive import reduce_archive
from tests.integration.containers.conftest import FOREVER_S, Host, eventually, now_s
from tests.saved_images import a_layer, a_shell, save_image

NAME = f"localhost/gpunion/pinned-{os.getpid()}:1"


@pytest.fixture
def archive(tmp_path: Path) -> tuple[Path, Image]:
    """With a tag, as somebody would have saved it; reduced, as nodes get it."""
    save_image(tmp_path / "saved.tar", a_shell(), a_layer({"etc/marker": b"pinned\n"}), tags=(NAME,))
    digest = reduce_archive(tmp_path / "saved.tar", tmp_path / "reduced.tar", None)
    return tmp_path / "reduced.tar", Image(name=NAME, digest=digest)


@pytest.fixture
def owners(host: Host) -> Iterator[str]:
    """The owner's own image of the same name, and its id."""
    empty = a_layer({"etc/marker": b"the owner's\n"})
    made = subprocess.run([host.engine, "import", "-", NAME], input=empty, capture_output=True, check=True)
    yield made.stdout.decode().strip().removeprefix("sha256:")
    subprocess.run([host.engine, "image", "rm", "--force", NAME], capture_output=True)


def test_a_guest_runs_in_the_image_it_is_pinned_to_and_the_owners_name_stays_the_owners(
    host: Host, owners: str, archive: tuple[Path, Image]
) -> None:
    file, image = archive
    images: EngineImages = host.runtime.images
    program = 'read -r line < /etc/marker; echo $line; read -r line < "$GPUNION_CONTROL_DIR/go"'
    spec = replace(host.guest("/bin/sh", "-c", program), image=image.ref)
    paths = asyncio.run(host.runtime.prepare(spec))
    os.mkfifo(paths.control_dir / "go")
    (paths.control_dir / "go").chmod(0o666)
    asyncio.run(host.runtime.limit(spec.run_id, now_s() + FOREVER_S, None))
    assert images.find(image) is None
    with pytest.raises(RuntimeFault, match=f"does not have {image.ref}, whatever it calls by that name"):
        asyncio.run(host.runtime.start(spec))
    images.load(file)
    try:
        assert images.find(image) == image.digest
        assert images.called(NAME) == owners
        asyncio.run(host.runtime.start(spec))
        eventually(lambda: paths.log_file.read_text() == "pinned\n")
        assert not images.remove(image.digest), "a container still has it"
        (paths.control_dir / "go").write_text("on\n")
        assert host.ended()[1] == 0
    finally:
        asyncio.run(host.runtime.remove(spec.run_id))
        removed = images.remove(image.digest)
    assert removed
    assert images.find(image) is None
    assert not images.remove(owners), "it has a name: somebody wants it"
    assert images.called(NAME) == owners
