"""This very package as a wheel, without its evaluation: a node gets what its coordinator speaks."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from functools import cache
from importlib import metadata
from pathlib import Path

import gpunion
from gpunion import __version__

DISTRIBUTION = "gpunion"
WHEEL_NAME = f"{DISTRIBUTION}-{__version__}-py3-none-any.whl"
# The evaluation (`lab`) is of no use on a machine that lends.
LEFT_OUT = {"__pycache__", "lab"}
# A moment that a zip file can hold, the same for every build: the same files make the same wheel.
MADE_AT = (2020, 1, 1, 0, 0, 0)


class NoWheel(Exception):
    """Why none can be made here."""


@cache
def wheel() -> bytes:
    """Made once in a process; NoWheel where the package was never installed, so its needs are not known."""
    files = {f"{DISTRIBUTION}/{name}": content for name, content in _package_files().items()}
    about = f"{DISTRIBUTION}-{__version__}.dist-info"
    files[f"{about}/METADATA"] = _metadata().encode()
    files[f"{about}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: gpunion\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    files[f"{about}/entry_points.txt"] = b"[console_scripts]\ngpunion = gpunion.__main__:main\n"
    record = "".join(f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in files.items())
    files[f"{about}/RECORD"] = f"{record}{about}/RECORD,,\n".encode()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, MADE_AT)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _package_files() -> dict[str, bytes]:
    root = Path(gpunion.__file__).parent
    found = (
        path
        for path in sorted(root.rglob("*"))
        if path.is_file() and not LEFT_OUT & set(path.relative_to(root).parts)
    )
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in found}


def _metadata() -> str:
    try:
        told = metadata.metadata(DISTRIBUTION)
    except metadata.PackageNotFoundError as error:
        raise NoWheel("this coordinator runs from a folder that was never installed") from error
    lines = ["Metadata-Version: 2.1", f"Name: {DISTRIBUTION}", f"Version: {__version__}"]
    for name in ("Summary", "Requires-Python", "Provides-Extra", "Requires-Dist"):
        lines += [f"{name}: {value}" for value in told.get_all(name) or []]
    return "\n".join(lines) + "\n"


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
