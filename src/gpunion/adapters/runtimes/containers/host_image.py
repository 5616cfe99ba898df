"""An image for guests that chose none: this machine's own programs, read-only, as the sandbox shows them.

The image itself is a few empty directories; /usr and the agent's Python are bound into the container. It
needs no registry and is always as new as the machine.
"""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

from gpunion.adapters.runtimes.containers.container_command import Engine, EngineTrouble
from gpunion.adapters.runtimes.sandbox.bubblewrap import SYSTEM_LINKS, SYSTEM_SETTINGS
from gpunion.adapters.runtimes.sandbox.launch_plan import identity_files, python_places

HOST_IMAGE = "localhost/gpunion/host:1"
DIRECTORIES = ("usr", "etc", "proc", "sys", "dev", "tmp", "run", "var", "gpunion")


def ensure_host_image(engine: Engine) -> None:
    """May be called by several agents at once: the same content under the same name is no harm."""
    if not image_is_here(engine, HOST_IMAGE):
        engine.call("import", "-", HOST_IMAGE, given=_archive())


def image_is_here(engine: Engine, image: str) -> bool:
    try:
        engine.call("image", "inspect", "--format", "{{.Id}}", image)
    except EngineTrouble as trouble:
        if trouble.absent:
            return False
        raise
    return True


def host_places(root: Path) -> list[tuple[Path, Path]]:
    """What is bound read-only into a container of this image: (where it is, where the guest sees it)."""
    places = [(Path("/usr"), Path("/usr"))]
    for name in SYSTEM_LINKS:
        path = Path("/", name)
        if path.is_dir() and not path.is_symlink():
            places.append((path, path))
    settings = (Path("/etc", name) for name in SYSTEM_SETTINGS)
    places += [(path.resolve(), path) for path in settings if path.exists()]
    own = [(source, target) for source, target in identity_files(root) if target.name != "hosts"]
    return [*places, *own, *(place for place in python_places() if place[0] == place[1])]


def _archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in DIRECTORIES:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
        for name in SYSTEM_LINKS:
            path = f"/{name}"
            if os.path.islink(path):
                link = tarfile.TarInfo(name)
                link.type, link.linkname = tarfile.SYMTYPE, os.readlink(path)
                archive.addfile(link)
    return buffer.getvalue()
