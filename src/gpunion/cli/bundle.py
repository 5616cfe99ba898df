"""A job's code as one archive: the same files always give the same bytes, so nothing is sent twice."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpunion.cli.exits import NOT_FOUND, Trouble
from gpunion.cli.ignoring import IGNORE_FILE, Ignoring
from gpunion.cli.quantities import shown_size

# What coordinator and agent take (docs/http-api.md). Data belongs on storage the nodes can reach.
BUNDLE_LIMIT_BYTES = 32 * 1024**2
UNPACKED_LIMIT_BYTES = 1024**3
ENTRIES_MAX = 20_000
LARGEST_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    data: bytes
    files: int
    skipped: tuple[str, ...]  # sockets and the like: no job can use them elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    name: str
    path: str
    mode: int
    size_bytes: int


def pack(folder: Path, *, entries_max: int = ENTRIES_MAX) -> Bundle:
    entries, skipped = _entries(folder, entries_max)
    _check_before(folder, entries)
    buffer = _Bounded()
    try:
        with tarfile.open(fileobj=buffer, mode="w|", format=tarfile.PAX_FORMAT) as archive:
            for entry in entries:
                _add(archive, entry)
        data = buffer.compressed()
    except _Full:
        raise _too_large(
            folder, entries, f"packed it is more than {shown_size(BUNDLE_LIMIT_BYTES)}"
        ) from None
    except OSError as error:
        raise Trouble(
            f"{error.filename or folder} cannot be packed", why=error.strerror or str(error)
        ) from error
    return Bundle(data=data, files=len(entries), skipped=tuple(skipped))


class _Full(Exception):
    pass


class _Bounded(io.RawIOBase):
    """Compresses as it is written to and stops at the limit, so that a dataset is not packed for minutes."""

    def __init__(self) -> None:
        import zlib

        self._zlib = zlib.compressobj(
            6, zlib.DEFLATED, 16 + zlib.MAX_WBITS
        )  # 16: a gzip file, without a time
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        piece = bytes(data)  # type: ignore[call-overload]
        self._keep(self._zlib.compress(piece))
        return len(piece)

    def compressed(self) -> bytes:
        self._keep(self._zlib.flush())
        return b"".join(self._parts)

    def _keep(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > BUNDLE_LIMIT_BYTES:
            raise _Full


def _entries(folder: Path, entries_max: int) -> tuple[list[Entry], list[str]]:
    if not folder.is_dir():
        raise Trouble(
            f"there is no directory {folder}",
            next_step="name the one with your code: --dir DIR",
            code=NOT_FOUND,
        )
    entries: list[Entry] = []
    skipped: list[str] = []
    for name, path, details in _walk(os.fspath(folder), "", _ignoring(folder)):
        if stat.S_ISLNK(details.st_mode):
            _check_link(name, path)
        elif not stat.S_ISREG(details.st_mode) and not stat.S_ISDIR(details.st_mode):
            skipped.append(name)
            continue
        size = details.st_size if stat.S_ISREG(details.st_mode) else 0
        entries.append(Entry(name=name, path=path, mode=details.st_mode, size_bytes=size))
        if len(entries) > entries_max:
            raise _too_large(folder, entries, f"it has more than {entries_max} files")
    return entries, skipped


def _walk(folder: str, prefix: str, ignoring: Ignoring) -> Iterator[tuple[str, str, os.stat_result]]:
    try:
        children = sorted(os.scandir(folder), key=lambda child: child.name)
    except OSError as error:
        raise Trouble(
            f"{folder} cannot be read", why=error.strerror or "", next_step=f"name it in {IGNORE_FILE}"
        ) from error
    for child in children:
        name = f"{prefix}{child.name}"
        is_directory = child.is_dir(follow_symlinks=False)
        if ignoring.ignores(name, is_directory=is_directory):
            continue
        yield name, child.path, child.stat(follow_symlinks=False)
        if is_directory:
            yield from _walk(child.path, f"{name}/", ignoring)


def _ignoring(folder: Path) -> Ignoring:
    file = folder / IGNORE_FILE
    try:
        return Ignoring(file.read_text(encoding="utf-8") if file.exists() else "")
    except (OSError, UnicodeDecodeError) as error:
        raise Trouble(f"{file} cannot be read", why=str(error)) from error


def _check_link(name: str, path: str) -> None:
    """The agent unpacks only links that stay inside; say so before anything is sent."""
    target = os.readlink(path)
    parts = target.split("/")
    ups = next((index for index, part in enumerate(parts) if part != ".."), len(parts))
    # Only up and then down: 'a/../b' could leave through a link called 'a'.
    if os.path.isabs(target) or ".." in parts[ups:] or ups > name.count("/"):
        raise Trouble(
            f"the link {name} leads outside the job's directory, to {target}",
            why="it would lead nowhere on another machine",
            next_step=f"copy what it points to, or name it in {IGNORE_FILE}",
        )


def _check_before(folder: Path, entries: list[Entry]) -> None:
    total = sum(entry.size_bytes for entry in entries)
    if total > UNPACKED_LIMIT_BYTES:
        raise _too_large(folder, entries, f"it has {shown_size(total)}")


def _add(archive: tarfile.TarFile, entry: Entry) -> None:
    info = tarfile.TarInfo(entry.name)  # without owner and time: they are not the job's
    info.mode = 0o755 if stat.S_ISDIR(entry.mode) or entry.mode & 0o100 else 0o644
    if stat.S_ISDIR(entry.mode):
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
    elif stat.S_ISLNK(entry.mode):
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(entry.path)
        archive.addfile(info)
    else:
        with open(entry.path, "rb") as file:
            info.size = os.fstat(file.fileno()).st_size
            archive.addfile(info, file)


def _too_large(folder: Path, entries: list[Entry], why: str) -> Trouble:
    return Trouble(
        f"{folder} is too large to travel with a job",
        why=f"{why}; the largest are {_largest(entries)}",
        next_step=f"name what the job does not need in {folder / IGNORE_FILE}, or give another --dir",
    )


def _largest(entries: list[Entry]) -> str:
    """Files, and folders of many files: whichever weigh most."""
    weights: dict[str, int] = {}
    for entry in entries:
        top, slash, _ = entry.name.partition("/")
        weights[top + slash] = weights.get(top + slash, 0) + entry.size_bytes
        if slash and entry.size_bytes:
            weights[entry.name] = entry.size_bytes
    heaviest = sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:LARGEST_SHOWN]
    return ", ".join(f"{name} ({shown_size(size)})" for name, size in heaviest if size) or "many small files"
