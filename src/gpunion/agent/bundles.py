"""A job's code: checked against its hash and unpacked so that nothing lands outside its directory."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from pathlib import Path, PurePosixPath

# The coordinator takes 32 MiB; what it unpacks to is bounded too, or it could fill an owner's disk.
BUNDLE_LIMIT_BYTES = 32 * 1024**2
UNPACKED_LIMIT_BYTES = 1024**3
ENTRIES_MAX = 20_000
READ_BYTES = 1024 * 1024
PATH_LIMIT = 1024


class BadBundle(Exception):
    """The bundle is not what was asked for, or not safe to unpack. The message says why."""


def check_digest(file: Path, digest: str) -> None:
    seen = hashlib.sha256()
    with open(file, "rb") as data:
        while piece := data.read(READ_BYTES):
            seen.update(piece)
    if seen.hexdigest() != digest.lower():
        raise BadBundle(f"the job's code has hash {seen.hexdigest()[:12]}…, {digest[:12]}… was asked for")


def unpack(file: Path, into: Path) -> None:
    """Files, directories and links that stay inside; anything else is refused and nothing of it is kept."""
    into.mkdir(mode=0o700, parents=True)
    try:
        with tarfile.open(file) as archive:
            _unpack(archive, into)
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        shutil.rmtree(into, ignore_errors=True)
        raise BadBundle(f"the job's code cannot be unpacked: {error}") from error
    except BadBundle:
        shutil.rmtree(into, ignore_errors=True)
        raise


def _unpack(archive: tarfile.TarFile, into: Path) -> None:
    links: dict[PurePosixPath, str] = {}
    room_bytes = UNPACKED_LIMIT_BYTES
    for count, member in enumerate(archive, start=1):
        if count > ENTRIES_MAX:
            raise BadBundle(f"the job's code has more than {ENTRIES_MAX} entries")
        path = _inside(member.name)
        if any(parent in links for parent in (path, *path.parents)):
            raise BadBundle(f"{member.name!r} in the job's code lies behind a link")
        if member.isdir():
            (into / path).mkdir(mode=0o755, parents=True, exist_ok=True)
        elif member.isreg():
            room_bytes -= member.size
            if room_bytes < 0:
                raise BadBundle(f"the job's code unpacks to more than {UNPACKED_LIMIT_BYTES} bytes")
            _write(archive, member, into / path)
        elif member.issym():
            _check_link(path, member.linkname)
            links[path] = member.linkname
        else:
            raise BadBundle(f"{member.name!r} in the job's code is neither a file, a directory nor a link")
    # Last, so that no entry was ever written through one of them.
    for path, target in links.items():
        (into / path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        os.symlink(target, into / path)


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or len(name) > PATH_LIMIT or "\0" in name:
        raise BadBundle(f"{name!r} in the job's code leads outside its directory")
    return path


def _check_link(path: PurePosixPath, target: str) -> None:
    """Only up and then down: 'a/../b' could leave through a link called 'a'."""
    parts = PurePosixPath(target).parts
    ups = next((index for index, part in enumerate(parts) if part != ".."), len(parts))
    if not parts or PurePosixPath(target).is_absolute() or ".." in parts[ups:] or ups > len(path.parts) - 1:
        raise BadBundle(f"the link {str(path)!r} in the job's code leads outside its directory")


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    source = archive.extractfile(member)
    if source is None:
        raise BadBundle(f"{member.name!r} in the job's code cannot be read")
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with source, open(path, "wb") as target:
        shutil.copyfileobj(source, target, READ_BYTES)
    os.chmod(path, 0o755 if member.mode & 0o100 else 0o644)
