"""The few operations on files that a vault's safety rests on, in one place so that tests can cut them."""

from __future__ import annotations

import os
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path

from gpunion.vault.room import WRITE_BYTES, room

SYNCS_MAX = 8  # at a time


class FileOperations:
    """Each is atomic or leaves something that is never looked at; what returned is on the disk."""

    def write_new(self, path: Path, data: bytes | memoryview) -> None:
        with open(path, "xb", buffering=0) as file:
            _write(file, data)
            os.fsync(file.fileno())

    def rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path, *, sync: bool = True) -> None:
        """An existing one is fine. The entry itself is durable when this returns, unless that can wait."""
        try:
            os.mkdir(path)
        except FileExistsError:
            return
        if sync:
            self.sync_directory(path.parent)

    def mark(self, path: Path) -> None:
        """An empty file, whose name is all it says. Made durable by nobody: it may be lost."""
        path.touch()

    def renew(self, path: Path) -> None:
        """An empty file whose age counts from now, by the file server's clock. It may be lost."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        os.utime(path)

    def touch(self, path: Path) -> None:
        """Set the modification time by the file server's clock; FileNotFoundError when there is no file."""
        os.utime(path)

    def sync_directory(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_directories(self, paths: Collection[Path]) -> None:
        """At once: the file system writes them together, and each one's wait is the same wait."""
        if not paths:
            return
        with ThreadPoolExecutor(min(len(paths), SYNCS_MAX)) as pool:
            list(pool.map(self.sync_directory, paths))

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def read_over(self, path: Path, use: str, limit_bytes: int) -> memoryview:
        """Into this thread's room for `use`: all of it, up to a limit."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            size_bytes = os.fstat(descriptor).st_size
            into = room(use, min(size_bytes, limit_bytes))
            done = 0
            while done < len(into) and (more := os.readv(descriptor, [into[done:]])):
                done += more
            return into[:done]
        finally:
            os.close(descriptor)

    def read_start(self, path: Path, limit_bytes: int) -> tuple[bytes, int]:
        """The first bytes, and how many there are in all."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return os.read(descriptor, limit_bytes), os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)


class Unsynced(FileOperations):
    """For what is only a memory: a power cut may damage or lose it, and whoever reads it finds out."""

    def write_new(self, path: Path, data: bytes | memoryview) -> None:
        with open(path, "xb", buffering=0) as file:
            _write(file, data)

    def sync_directory(self, path: Path) -> None:
        return

    def sync_directories(self, paths: Collection[Path]) -> None:
        return


def _write(file: FileIO, data: bytes | memoryview) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left[:WRITE_BYTES]) :]
