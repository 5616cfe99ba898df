"""The directory that travels with a job: what of it goes, and each file's blocks by their hashes.

Files are read while somebody may be writing them. One that changes while it is read is read again; one that
never stands still is named and nothing is handed in, rather than half of it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpunion.cli.exits import NOT_FOUND, USAGE, Trouble
from gpunion.cli.jobs.ignoring import ENVIRONMENT_MARKS, IGNORE_FILE, SECRET_FOLDERS, Ignoring, Why
from gpunion.cli.quantities import shown_size
from gpunion.vault.tree import BLOCK_SIZE_BYTES, FILES_MAX, BadTree, FileEntry, check_link_strictly

LARGEST_SHOWN = 5
READ_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    name: str
    path: str
    mode: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    name: str  # a folder's ends in a slash
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What there is, before a byte of it was read."""

    folder: Path
    entries: tuple[Found, ...]
    skipped: tuple[str, ...]  # sockets and the like: no job can use them elsewhere
    left_out: tuple[LeftOut, ...] = ()  # secrets and virtual environments: worth telling

    @property
    def size_bytes(self) -> int:
        return sum(entry.size_bytes for entry in self.entries)

    def largest(self) -> str:
        """Files, and folders of many files: whichever weigh most."""
        weights: dict[str, int] = {}
        for entry in self.entries:
            top, slash, _ = entry.name.partition("/")
            weights[top + slash] = weights.get(top + slash, 0) + entry.size_bytes
            if slash and entry.size_bytes:
                weights[entry.name] = entry.size_bytes
        heaviest = sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:LARGEST_SHOWN]
        shown = (f"{name} ({shown_size(size)})" for name, size in heaviest if size)
        return ", ".join(shown) or "many small files"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block's bytes can be read again."""

    path: str
    offset: int
    size_bytes: int
    link: bool = False

    def read(self) -> bytes:
        if self.link:
            return os.fsencode(os.readlink(self.path))
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            return os.pread(descriptor, self.size_bytes, self.offset)
        finally:
            os.close(descriptor)


@dataclass(slots=True)
class Snapshot:
    files: list[FileEntry] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)


def take_inventory(
    folder: Path,
    *,
    left_out: Path | None = None,
    included: Sequence[str] = (),
    files_max: int = FILES_MAX,
) -> Inventory:
    """`left_out`: a folder that stays here, if it is one of this one and not brought back by name, as those
    of `included` are."""
    if not folder.is_dir():
        raise Trouble(
            f"there is no directory {folder}",
            next_step="name the one with your code: --dir DIR",
            code=NOT_FOUND,
        )
    _refuse_secrets(folder)
    entries: list[Found] = []
    skipped: list[str] = []
    stays: list[LeftOut] = []
    ignoring = _ignoring(folder, left_out, included)
    for name, path, details in _walk(os.fspath(folder), "", ignoring, stays):
        mode = details.st_mode
        if stat.S_ISLNK(mode):
            _check_link(name, path)
        elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            skipped.append(name)
            continue
        size = details.st_size if stat.S_ISREG(mode) else 0
        entries.append(Found(name=name, path=path, mode=mode, size_bytes=size))
        if len(entries) > files_max:
            inventory = Inventory(folder=folder, entries=tuple(entries), skipped=())
            raise Trouble(
                f"{folder} has more than {files_max} files",
                why=f"the largest of those found are {inventory.largest()}",
                next_step=f"name what the job does not need in {folder / IGNORE_FILE}, or give another --dir",
            )
    return Inventory(folder=folder, entries=tuple(entries), skipped=tuple(skipped), left_out=tuple(stays))


def _refuse_secrets(folder: Path) -> None:
    name = folder.resolve().name
    if name in SECRET_FOLDERS:
        raise Trouble(
            f"{folder} is a folder of keys and passwords",
            why="a job's directory is sent to somebody else's machine",
            next_step="give the directory with your code: --dir DIR; or send nothing: --no-dir",
            code=USAGE,
        )


def take_snapshot(inventory: Inventory, read: Callable[[int], None] = lambda size_bytes: None) -> Snapshot:
    """Hash everything; `read` is told of bytes as they are."""
    snapshot = Snapshot()
    for entry in inventory.entries:
        try:
            snapshot.files.append(_hashed(entry, snapshot.places, read))
        except OSError as error:
            raise Trouble(
                f"{error.filename or entry.path} cannot be read",
                why=error.strerror or str(error),
                next_step=f"name it in {inventory.folder / IGNORE_FILE} if the job does not need it",
            ) from error
    return snapshot


def changed(path: str) -> Trouble:
    return Trouble(
        f"{path} changes while it is being read",
        why="a job that got half of each version would be worse than none",
        next_step=f"stop what writes it, or name it in {IGNORE_FILE}",
    )


def _walk(
    folder: str, prefix: str, ignoring: Ignoring, stays: list[LeftOut]
) -> Iterator[tuple[str, str, os.stat_result]]:
    try:
        children = sorted(os.scandir(folder), key=lambda child: child.name)
    except OSError as error:
        raise Trouble(
            f"{folder} cannot be read", why=error.strerror or "", next_step=f"name it in {IGNORE_FILE}"
        ) from error
    for child in children:
        name = f"{prefix}{child.name}"
        is_directory = child.is_dir(follow_symlinks=False)
        why = ignoring.left_out(
            name, is_directory=is_directory, is_environment=is_directory and _is_environment(child.path)
        )
        if why is not None:
            if why in (Why.SECRET, Why.ENVIRONMENT):
                stays.append(LeftOut(name=f"{name}/" if is_directory else name, why=why))
            continue
        try:
            details = child.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue  # gone since the look into its folder
        yield name, child.path, details
        if is_directory:
            yield from _walk(child.path, f"{name}/", ignoring, stays)


def _is_environment(folder: str) -> bool:
    return any(os.path.lexists(os.path.join(folder, mark)) for mark in ENVIRONMENT_MARKS)


def inside(folder: Path, other: Path) -> str:
    """The name that `other` has in `folder`; empty where it is not in there."""
    folder, other = folder.resolve(), other.resolve()
    return other.relative_to(folder).as_posix() if folder in other.parents else ""


def _ignoring(folder: Path, left_out: Path | None, included: Sequence[str]) -> Ignoring:
    file = folder / IGNORE_FILE
    name = "" if left_out is None else inside(folder, left_out)
    try:
        text = file.read_text(encoding="utf-8") if file.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise Trouble(f"{file} cannot be read", why=str(error)) from error
    return Ignoring(text, name, included)


def _check_link(name: str, path: str) -> None:
    """The agent makes only links that stay inside; say so before anything is sent."""
    try:
        check_link_strictly(name, os.readlink(path))
    except BadTree as error:
        raise Trouble(
            str(error),
            why="it would lead nowhere on another machine",
            next_step=f"copy what it points to, or name it in {IGNORE_FILE}",
        ) from error


def _hashed(entry: Found, places: dict[str, Place], read: Callable[[int], None]) -> FileEntry:
    # Without owner, time and the rest of the mode: they are not the job's, and would make equal files differ.
    mode = 0o755 if stat.S_ISDIR(entry.mode) or entry.mode & 0o100 else 0o644
    kind = stat.S_IFMT(entry.mode)
    if kind == stat.S_IFDIR:
        return FileEntry(path=entry.name, size_bytes=0, mode=kind | mode, blocks=())
    if kind == stat.S_IFLNK:
        target = Place(path=entry.path, offset=0, size_bytes=0, link=True)
        data = target.read()
        name = _name(data)
        places[name] = target
        return FileEntry(path=entry.name, size_bytes=len(data), mode=kind | 0o777, blocks=(name,))
    for _ in range(READ_TRIES):
        found = _read_once(entry, places, read)
        if found is not None:
            size_bytes, blocks = found
            return FileEntry(path=entry.name, size_bytes=size_bytes, mode=kind | mode, blocks=blocks)
    raise changed(entry.path)


def _read_once(
    entry: Found, places: dict[str, Place], read: Callable[[int], None]
) -> tuple[int, tuple[str, ...]] | None:
    """Size and blocks; None where the file changed meanwhile."""
    descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise changed(entry.path)
        blocks = []
        offset = 0
        while data := _read_full(descriptor):
            name = _name(data)
            blocks.append(name)
            places.setdefault(name, Place(entry.path, offset, len(data)))
            offset += len(data)
            read(len(data))
        after = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or offset != after.st_size:
        read(-offset)
        return None
    return offset, tuple(blocks)


def _read_full(descriptor: int) -> bytes:
    data = os.read(descriptor, BLOCK_SIZE_BYTES)
    while len(data) < BLOCK_SIZE_BYTES and (more := os.read(descriptor, BLOCK_SIZE_BYTES - len(data))):
        data += more
    return data


def _name(data: bytes) -> str:
    from gpunion.vault.job_directories import digest_of

    return digest_of(data)
