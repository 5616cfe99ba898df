"""Guests in an image of their own. No registry is asked: the image is made of this machine's shell."""

from __future__ import annotations

import asyncio
import io
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator

import pytest

from gpunion.ports.runtime import RuntimeFault
from tests.integration.containers.conftest import FOREVER_S, OPENERS, Host
from tests.real_machine import now_s


def shell_image() -> bytes:
    """/bin/sh, the libraries it is linked to, and a file that the host does not have."""
    libraries = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", dereference=True) as archive:
        for path in ["/bin/sh", *re.findall(r"(/\S+) \(0x", libraries)]:
            archive.add(os.path.realpath(path), arcname=path.lstrip("/"))
        marker = tarfile.TarInfo("etc/marker")
        text = b"of the image\n"
        marker.size = len(text)
        archive.addfile(marker, io.BytesIO(text))
    return buffer.getvalue()


@pytest.fixture
def image(host: Host) -> Iterator[str]:
    name = f"localhost/gpunion/test-{os.getpid()}:1"
    subprocess.run([host.engine, "import", "-", name], input=shell_image(), capture_output=True, check=True)
    yield name
    subprocess.run([host.engine, "image", "rm", "--force", name], capture_output=True)


def test_a_guest_in_an_image_sees_the_image_and_nothing_of_the_hosts_programs(host: Host, image: str) -> None:
    host.runtime = OPENERS[host.engine](host.state_dir, image=image)
    program = (
        "read -r line < /etc/marker; echo $line; [ -e /usr/bin/env ] && echo has the host; "
        "[ -e /gpunion/lib/gpunion/sdk/job ] && echo has the library; "
        'echo $MINE > "$GPUNION_OUTPUT_DIR/mine"; exit 4'
    )
    root = host.start("/bin/sh", "-c", program, environment={"MINE": "a b"})
    _, code = host.ended()
    assert (root / "log.txt").read_text() == "of the image\nhas the library\n"
    assert (root / "output" / "mine").read_text() == "a b\n"
    assert code == 4


def test_an_image_without_a_shell_is_refused_with_words(host: Host) -> None:
    name = f"localhost/gpunion/empty-{os.getpid()}:1"
    empty = io.BytesIO()
    with tarfile.open(fileobj=empty, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("nothing"))
    subprocess.run(
        [host.engine, "import", "-", name], input=empty.getvalue(), capture_output=True, check=True
    )
    try:
        host.runtime = OPENERS[host.engine](host.state_dir, image=name)
        spec = host.guest("true")
        asyncio.run(host.runtime.prepare(spec))
        asyncio.run(host.runtime.limit(spec.run_id, now_s() + FOREVER_S, None))
        with pytest.raises(RuntimeFault, match=r"cannot start job-1-e1: .*/bin/sh"):
            asyncio.run(host.runtime.start(spec))
    finally:
        subprocess.run([host.engine, "image", "rm", "--force", name], capture_output=True)
