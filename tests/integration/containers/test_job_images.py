"""The image a job is pinned to, in real engines: loaded from a file, checked, used, and removed."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import http.server
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from gpunion.adapters.runtimes.containers.images import EngineImages
from gpunion.agent.machine.image_budget import ImageShelf
from gpunion.agent.machine.images import ImageKeeper
from gpunion.domain.image import Archive, Image, Parcel
from gpunion.ports.images import ImageFault
from gpunion.ports.runtime import RuntimeFault
from gpunion.wire.image_archive import file_digest, reduce_archive
from tests.integration.containers.conftest import FOREVER_S, OPENERS, Host
from tests.real_machine import eventually, now_s
from tests.saved_images import a_config, a_layer, a_shell, save_image

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


class Files:
    """Implements `ports.images.ArchiveSource` with what lies in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def an_image(self, marker: str) -> Parcel:
        save_image(self.folder / "saved.tar", a_layer({"marker": marker.encode() * 1_000_000}))
        digest = reduce_archive(self.folder / "saved.tar", self.folder / "reduced.tar", None)
        archive = file_digest(self.folder / "reduced.tar")
        (self.folder / "reduced.tar").rename(self.folder / archive)
        size_bytes = (self.folder / archive).stat().st_size
        return Parcel(
            image=Image(name=f"campus/{marker}", digest=digest),
            archive=Archive(digest=archive, size_bytes=size_bytes),
        )

    async def fetch_archive(self, digest: str, into: Path, reached: Callable[[int], None]) -> None:
        shutil.copyfile(self.folder / digest, into)
        reached(into.stat().st_size)


def test_beyond_the_quota_the_image_used_least_lately_goes_and_the_owners_stays(
    host: Host, owners: str, tmp_path: Path
) -> None:
    images, source = host.runtime.images, Files(tmp_path)
    first, second, third = (source.an_image(marker) for marker in "abc")
    shelf = ImageShelf(images, tmp_path / "shelf", quota_bytes=2_500_000, keep_free_bytes=0)
    keeper = ImageKeeper(images, source, shelf)

    async def have_all() -> None:
        for parcel in (first, second, first, third):
            await keeper.have(parcel, None, lambda: False)

    try:
        asyncio.run(have_all())
        here = [images.find(parcel.image) is not None for parcel in (first, second, third)]
        assert here == [True, False, True]
    finally:
        asyncio.run(keeper.purge())
    assert images.find(first.image) is None
    assert images.called(NAME) == owners


class SmallRegistry(http.server.BaseHTTPRequestHandler):
    """One image of one layer, as a registry serves it. `things`: manifest and blobs, by digest."""

    things: ClassVar[dict[str, tuple[str, bytes]]] = {}

    def do_GET(self) -> None:
        kind, data = self.things.get(self.path.rpartition("/")[2], ("application/json", b"{}"))
        self.send_response(200 if self.path == "/v2/" or len(data) > 2 else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    do_HEAD = do_GET

    def log_message(self, format: str, *words: object) -> None:
        del format, words


def named(kind: str, data: bytes) -> dict[str, object]:
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    SmallRegistry.things[digest] = (kind, data)
    return {"mediaType": kind, "size": len(data), "digest": digest}


@pytest.fixture
def registry() -> Iterator[Image]:
    """Only Docker takes one on loopback without TLS."""
    layer = a_layer({"etc/marker": b"from a registry\n"})
    docker = "application/vnd.docker"
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{docker}.distribution.manifest.v2+json",
        "config": named(f"{docker}.container.image.v1+json", a_config(layer)),
        "layers": [named(f"{docker}.image.rootfs.diff.tar.gzip", gzip.compress(layer))],
    }
    pinned = named(str(manifest["mediaType"]), json.dumps(manifest).encode())
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), SmallRegistry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    digest = str(pinned["digest"]).removeprefix("sha256:")
    yield Image(name=f"127.0.0.1:{server.server_address[1]}/train:1", digest=digest)
    server.shutdown()
    server.server_close()


@pytest.mark.requires("docker")
def test_an_image_in_a_registry_is_pulled_and_found_by_the_digest_of_its_manifest(
    tmp_path: Path, registry: Image
) -> None:
    images = OPENERS["docker"](tmp_path / "state").images
    assert images.find(registry) is None
    images.pull(registry)
    found = images.find(registry)
    assert found is not None
    try:
        assert found != registry.digest, "an engine's id is of the configuration, not of the manifest"
        other = replace(registry, digest="0" * 64)
        assert images.find(other) is None
        with pytest.raises(ImageFault):
            images.pull(other)
        assert images.remove(found), "nobody has given it a name"
    finally:
        subprocess.run(["docker", "image", "rm", "--force", found], capture_output=True)
    assert images.find(registry) is None
