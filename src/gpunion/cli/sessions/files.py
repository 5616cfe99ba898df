"""Brings a session's files here while it goes on: what changed there, and nothing over what is newer here.

Its guest sends them, and may send anything: names that lead elsewhere, links through one another, heads
without end. Nothing is written by way of a link (`jobs.beneath`), no link is made that could lead out, and
nothing comes under a name that something here believes (`jobs.trusting`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import os
import queue
import stat
import tarfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpunion.cli.campus import Json
from gpunion.cli.jobs.beneath import Beneath, part_of
from gpunion.cli.jobs.trusting import is_believed
from gpunion.sdk.streams import ByteStream, StreamBroken
from gpunion.vault.tree import BadTree, check_link_strictly, check_path

ASKED = b"tar\n"
PIECES_AHEAD = 16
ENTRIES_MAX = 2_000_000
COPY_BYTES = 1 << 20
# File systems keep times to a second or two.
TIME_S = 2.0
SHOWN_MAX = 20
DATE_MAX_S = 2.0**32
# Names and their details travel in front of a file, and are read whole.
HEAD_MAX_BYTES = 64 * 1024
MORE_OF_THE_HEAD = (
    tarfile.XHDTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


# What a session's files never come as: details of all that follow, which would be remembered without a bound,
# and files with holes, whose lists of them have none.
REFUSED = (tarfile.XGLTYPE, tarfile.GNUTYPE_SPARSE)
NAME_SHOWN_CHARS = 200


@dataclass(slots=True)
class Names:
    """How many, and the first of them: a guest can send as many as it likes."""

    number: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, name: str) -> None:
        self.number += 1
        if len(self.first) < SHOWN_MAX:
            short = name if len(name) <= NAME_SHOWN_CHARS else f"{name[:NAME_SHOWN_CHARS]}..."
            self.first.append("".join(letter if letter.isprintable() else "?" for letter in short))


@dataclass(slots=True)
class Brought:
    target: Path
    files: int = 0
    written: int = 0
    written_bytes: int = 0
    kept: Names = field(default_factory=Names)  # newer here
    left_out: Names = field(default_factory=Names)  # would have led outside, or is of no kind to bring
    believed: Names = field(default_factory=Names)  # would have been run or trusted here

    def plain(self) -> Json:
        return {
            "target": str(self.target),
            "files": self.files,
            "written": self.written,
            "written_bytes": self.written_bytes,
            "kept": self.kept.first,
            "kept_number": self.kept.number,
            "left_out": [*self.believed.first, *self.left_out.first][:SHOWN_MAX],
            "left_out_number": self.believed.number + self.left_out.number,
        }


async def bring(stream: ByteStream, target: Path, *, force: bool) -> Brought:
    """StreamBroken, tarfile.TarError, OSError: it broke off; what has come whole is there."""
    pieces = _Pieces()
    unpacking = asyncio.create_task(asyncio.to_thread(_unpack, pieces, target, force))
    try:
        await stream.write(ASKED)
        while not unpacking.done() and (piece := await stream.read()):
            await asyncio.to_thread(pieces.put, piece)
    except StreamBroken as broken:
        pieces.broken = str(broken)
    finally:
        await asyncio.to_thread(pieces.put, b"")
        await stream.close()
    return await unpacking


class _Pieces:
    """What came, as a file that is read in another thread."""

    def __init__(self) -> None:
        self._queue: queue.Queue[bytes] = queue.Queue(PIECES_AHEAD)
        self._rest = b""
        self._ended = False
        self.broken = ""
        self.done = False

    def put(self, piece: bytes) -> None:
        while not self.done:
            with contextlib.suppress(queue.Full):
                self._queue.put(piece, timeout=0.2)
                return

    def read(self, size: int) -> bytes:
        while not self._rest and not self._ended:
            self._rest = self._queue.get()
            self._ended = not self._rest
        if not self._rest and self.broken:
            raise StreamBroken(self.broken)
        found, self._rest = self._rest[:size], self._rest[size:]
        return found


class _Entry(tarfile.TarInfo):
    """Its head is read whole, so it has a bound."""

    __slots__ = ()

    @classmethod
    def frombuf(cls, buf: bytes, encoding: str, errors: str) -> _Entry:  # type: ignore[override]
        entry = super().frombuf(buf, encoding, errors)
        if entry.type in MORE_OF_THE_HEAD and entry.size > HEAD_MAX_BYTES:
            raise tarfile.ReadError(f"a name or its details of {entry.size} bytes")
        if entry.type in REFUSED:
            raise tarfile.ReadError("a kind of entry that a session's files never come as")
        return entry

    def _no_holes(self, *_: object) -> None:
        raise tarfile.ReadError("a file with holes, which a session's files never come as")

    # What tarfile calls where the details of a file speak of holes, by the version of what they say.
    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _no_holes


def _unpack(pieces: _Pieces, target: Path, force: bool) -> Brought:
    brought = Brought(target)
    try:
        with closing(Beneath(target)) as here, _opened(pieces) as archive:
            number = 0
            while (entry := _next(archive)) is not None:
                number += 1
                if number > ENTRIES_MAX:
                    raise tarfile.ReadError(f"more than {ENTRIES_MAX} files")
                _one(archive, entry, here, brought, force=force)
                archive.members.clear()  # it remembers them all
    finally:
        pieces.done = True
    return brought


@contextlib.contextmanager
def _read_with_suspicion() -> Iterator[None]:
    """The library trusts what it reads: heads in front of heads, and numbers that are none, are errors of all
    kinds to it."""
    try:
        yield
    except (tarfile.TarError, OSError, StreamBroken):
        raise
    except Exception as error:
        words = str(error) or type(error).__name__
        raise tarfile.ReadError(f"what came is not what a session's files come as ({words})") from error


def _opened(pieces: _Pieces) -> Any:
    with _read_with_suspicion():
        return tarfile.open(fileobj=pieces, mode="r|", tarinfo=_Entry)  # type: ignore[call-overload]


def _next(archive: tarfile.TarFile) -> tarfile.TarInfo | None:
    with _read_with_suspicion():
        return archive.next()


def _one(
    archive: tarfile.TarFile, entry: tarfile.TarInfo, here: Beneath, brought: Brought, *, force: bool
) -> None:
    try:
        check_path(entry.name)
        if entry.issym():
            check_link_strictly(entry.name, entry.linkname)
    except BadTree:
        brought.left_out.add(entry.name)
        return
    if is_believed(entry.name):
        brought.believed.add(entry.name)
        return
    try:
        _put(archive, entry, here, brought, force=force)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        brought.left_out.add(entry.name)


def _put(
    archive: tarfile.TarFile, entry: tarfile.TarInfo, here: Beneath, brought: Brought, *, force: bool
) -> None:
    there = here.looks(entry.name)
    if entry.isdir():
        here.make_folder(entry.name)
    elif there is not None and stat.S_ISDIR(there.st_mode):
        brought.left_out.add(entry.name)
    elif entry.issym():
        if there is None or stat.S_ISLNK(there.st_mode):
            here.link(entry.name, entry.linkname, part_of(entry.name).rpartition("/")[2])
        else:
            brought.left_out.add(entry.name)
    elif entry.isreg() and not entry.issparse():
        brought.files += 1
        if there is not None and _same(there, entry):
            return
        if not force and there is not None and _newer_here(there, entry):
            brought.kept.add(entry.name)
            return
        brought.written_bytes += _write(archive.extractfile(entry), entry, here)
        brought.written += 1
    else:
        brought.left_out.add(entry.name)


def _same(there: os.stat_result, entry: tarfile.TarInfo) -> bool:
    alike = there.st_size == entry.size and abs(there.st_mtime - entry.mtime) < 1e-3
    return stat.S_ISREG(there.st_mode) and alike


def _newer_here(there: os.stat_result, entry: tarfile.TarInfo) -> bool:
    return stat.S_ISREG(there.st_mode) and there.st_mtime > entry.mtime + TIME_S


def _write(source: Any, entry: tarfile.TarInfo, here: Beneath) -> int:
    """Beside its name first: what has its name is whole."""
    unfinished = part_of(entry.name)
    size = 0
    with open(here.make_file(unfinished), "wb") as file:
        file.truncate()
        while piece := source.read(COPY_BYTES):
            file.write(piece)
            size += len(piece)
        file.flush()
        os.fchmod(file.fileno(), 0o755 if entry.mode & 0o100 else 0o644)
        os.utime(file.fileno(), (_moment(entry), _moment(entry)))
    here.rename(unfinished, entry.name.rpartition("/")[2])
    return size


def _moment(entry: tarfile.TarInfo) -> float:
    """Dates that no file system has would be refused."""
    return min(max(0.0, float(entry.mtime)), DATE_MAX_S) if math.isfinite(entry.mtime) else 0.0
