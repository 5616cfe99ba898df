"""Images as files, made by hand: no engine and no registry is needed to have one."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def a_layer(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def a_shell(*programs: str) -> bytes:
    """A layer with programs of this machine, /bin/sh if none is named, and the libraries they need."""
    programs = programs or ("/bin/sh",)
    needed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", dereference=True) as archive:
        for path in dict.fromkeys([*programs, *re.findall(r"(/\S+) \(0x", needed)]):
            archive.add(os.path.realpath(path), arcname=path.lstrip("/"))
    return buffer.getvalue()


def a_config(*layers: bytes, settings: Mapping[str, object] | None = None) -> bytes:
    """The digest of this is what pins the image. `settings`: Entrypoint, Cmd, User, WorkingDir, Env."""
    digests = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    config: dict[str, Any] = {
        "architecture": "amd64",
        "os": "linux",
        "config": dict(settings or {}),
        "rootfs": {"type": "layers", "diff_ids": digests},
        "history": [{"created_by": "a test"} for _ in layers],
    }
    return json.dumps(config).encode()


def save_image(
    path: Path,
    *layers: bytes,
    tags: tuple[str, ...] = (),
    more: Mapping[str, bytes] | None = None,
    settings: Mapping[str, object] | None = None,
) -> str:
    """As `docker save` writes it; returns its digest."""
    return save_images(path, [(layers, tags)], more or {}, settings)


def save_images(
    path: Path,
    images: list[tuple[tuple[bytes, ...], tuple[str, ...]]],
    more: Mapping[str, bytes] | None = None,
    settings: Mapping[str, object] | None = None,
) -> str:
    members: dict[str, bytes] = dict(more or {})
    listing = []
    for layers, tags in images:
        config = a_config(*layers, settings=settings)
        digest = hashlib.sha256(config).hexdigest()
        names = [f"{hashlib.sha256(layer).hexdigest()}/layer.tar" for layer in layers]
        members |= dict(zip(names, layers, strict=True))
        members[f"{digest}.json"] = config
        listing.append({"Config": f"{digest}.json", "RepoTags": list(tags) or None, "Layers": names})
    members["manifest.json"] = json.dumps(listing).encode()
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), 1_700_000_000
            archive.addfile(member, io.BytesIO(data))
    return digest
