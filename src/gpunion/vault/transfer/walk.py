"""Looking at a guest's directory, which the guest may change meanwhile: no link is followed on the way."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Self

from gpunion.files import NO_ROOM
from gpunion.vault.manifest import BadManifest, CheckpointTorn, LocalDiskTrouble
from gpunion.vault.manifests import check_path
from gpunion.vault.room import room

Signature = tuple[int, int, int, int]


class Done:
    """How much of what a directory holds has been dealt with; `told` hears it from the thread that ships."""

    def __init__(self, looks: Iterable[Signature], told: Callable[[int, int], None]) -> None:
        self._told = told
        self._total_bytes = sum(size_bytes for _, size_bytes, _, _ in looks)
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
    waiting = [start]  # not by recursion: a guest may nest deeper than that goes
    while waiting:
        inside = waiting.pop()
        with _folder(root, inside) as folder:
            for name in os.listdir(folder):
                mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
                path = name if inside is None else f"{inside}/{name}"
                if stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
                    check_path(path)
                    yield path
                if stat.S_ISDIR(mode):
                    waiting.append(path)


def named(root: int, files: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for path in files:
        check_path(path)
        found.add(path)
        with Folders(root) as folders:
            is_folder = stat.S_ISDIR(folders.look(path).st_mode)
        if is_folder:
            found.update(walk(root, path))
    return found


class Folders:
    """Ways to files of a directory. The folder of the last one stays open: sorted paths ask for it again."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._parent, self._folder = "", -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *trouble: object) -> None:
        self._leave()

    def of(self, path: str) -> tuple[int, str]:
        """A descriptor, good until the next call, and the name in it."""
        parent, _, name = path.rpartition("/")
        if not parent:
            return self._root, name
        if self._folder < 0 or parent != self._parent:
            self._leave()
            with _folder(self._root, parent) as folder:
                self._parent, self._folder = parent, os.dup(folder)
        return self._folder, name

    def look(self, path: str) -> os.stat_result:
        folder, name = self.of(path)
        return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def _leave(self) -> None:
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1


def signature(about: os.stat_result) -> Signature:
    if stat.S_ISDIR(about.st_mode):
        return (about.st_ino, 0, 0, 0)  # what matters of a directory is in its entries
    return (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)


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
