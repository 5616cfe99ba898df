"""Looking at a guest's directory, which the guest may change meanwhile: no link is followed on the way."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from gpunion.adapters.files.manifests import check_path
from gpunion.adapters.files.room import room
from gpunion.owner_kill.records import NO_ROOM
from gpunion.ports.vault import BadManifest, CheckpointTorn, LocalDiskTrouble

Signature = tuple[int, int, int, int]


class Done:
    """How much of what a directory holds has been dealt with; `told` hears it from the thread that ships."""

    def __init__(self, looks: Iterable[os.stat_result], told: Callable[[int, int], None]) -> None:
        self._told = told
        self._total_bytes = sum(about.st_size for about in looks if not stat.S_ISDIR(about.st_mode))
        self._done_bytes = 0
        self.more(0)

    def more(self, done_bytes: int) -> None:
        self._done_bytes += done_bytes
        self._told(self._done_bytes, self._total_bytes)


@contextmanager
def opened(directory: str | os.PathLike[str]) -> Iterator[int]:
    root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield root
    finally:
        os.close(root)


def open_regular(folder: int, name: str, path: str, about: os.stat_result) -> int:
    """A descriptor of the very file that was looked at, or the checkpoint is torn."""
    # Not blocking: it may have become a pipe since.
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    if signature(os.fstat(descriptor)) != signature(about):
        os.close(descriptor)
        raise CheckpointTorn(f"{path} changed while the checkpoint was read")
    return descriptor


def read_exactly(descriptor: int, offset: int, wanted_bytes: int) -> memoryview:
    """What is appended meanwhile is found by the last look, what is cut off here. It lies in this thread's
    room until the next reading."""
    data = room("source", wanted_bytes)
    done = 0
    while done < wanted_bytes:
        more = os.preadv(descriptor, [data[done:]], offset + done)
        if not more:
            raise CheckpointTorn("a file became shorter while the checkpoint was read")
        done += more
    return data


def walk(root: int, start: str | None) -> Iterator[str]:
    """Every path under `start`, directories included, links not followed. Sockets and pipes hold no state."""
    with _folder(root, start) as folder:
        names = sorted(os.listdir(folder))
        kinds = {name: os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode for name in names}
    for name, mode in kinds.items():
        path = name if start is None else f"{start}/{name}"
        if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            yield path
        elif stat.S_ISDIR(mode):
            yield path
            yield from walk(root, path)


def named(root: int, files: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for path in files:
        check_path(path)
        found.add(path)
        if stat.S_ISDIR(look(root, path).st_mode):
            found.update(walk(root, path))
    return found


def look(root: int, path: str) -> os.stat_result:
    with folder_of(root, path) as (folder, name):
        return os.stat(name, dir_fd=folder, follow_symlinks=False)


def signature(about: os.stat_result) -> Signature:
    if stat.S_ISDIR(about.st_mode):
        return (about.st_ino, 0, 0, 0)  # what matters of a directory is in its entries
    return (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


@contextmanager
def folder_of(root: int, path: str) -> Iterator[tuple[int, str]]:
    parent, _, name = path.rpartition("/")
    with _folder(root, parent or None) as folder:
        yield folder, name


@contextmanager
def _folder(root: int, path: str | None) -> Iterator[int]:
    """A descriptor of a directory inside, reached step by step so that no link can lead elsewhere."""
    folder = os.dup(root)
    try:
        for part in path.split("/") if path else ():
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)


@contextmanager
def local_trouble() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise CheckpointTorn(f"{error.filename} is not there, or no longer") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise BadManifest(f"{error.filename} leads through a link") from error
        no_room = error.errno in NO_ROOM
        raise LocalDiskTrouble(f"cannot read the checkpoint: {error}", no_room=no_room) from error
