"""Files below one folder and nowhere else: no link that stands there is followed, or is put there meanwhile.

Every folder on the way is opened by its name in the one above it. What stands where a folder has to be, a
link or a file, is removed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Somebody may put something else there between two looks, but not without end.
TRIES = 8
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PART_SUFFIX = ".gpunion-part"


class Beneath:
    """Names are relative, with "/", and checked (`vault.tree.check_path`)."""

    def __init__(self, base: Path, inside: str = "") -> None:
        """`base` is the user's own word and may be a link; `inside`, the name of a folder in it, may not."""
        base.mkdir(parents=True, exist_ok=True)
        self._root = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if inside:
            outer = self._root
            try:
                self._root = _entered(outer, inside)
            finally:
                os.close(outer)

    def close(self) -> None:
        os.close(self._root)

    def make_folder(self, path: str) -> None:
        with self.parent_of(f"{path}/."):
            pass

    @contextmanager
    def parent_of(self, path: str) -> Iterator[tuple[int, str]]:
        """The folder that it lies in, which is made where it is not there, and its name in that."""
        *folders, name = path.split("/")
        here = os.dup(self._root)
        try:
            for folder in folders:
                outer, here = here, _entered(here, folder)
                os.close(outer)
            yield here, name
        finally:
            os.close(here)

    def looks(self, path: str) -> os.stat_result | None:
        """What has this name, a link as a link; None where nothing has."""
        with self.parent_of(path) as (folder, name):
            return _looks(folder, name)

    def open_file(self, path: str, flags: int, mode: int = 0o600) -> int:
        """A file proper. FileNotFoundError, or OSError with ELOOP where it is none."""
        with self.parent_of(path) as (folder, name):
            return open_regular(folder, name, flags, mode)

    def make_file(self, path: str) -> int:
        """To read and write; what has the name and is no file is removed."""
        with self.parent_of(path) as (folder, name):
            there = _looks(folder, name)
            if there is not None and not stat.S_ISREG(there.st_mode):
                os.unlink(name, dir_fd=folder)
            return open_regular(folder, name, os.O_RDWR | os.O_CREAT, 0o600)

    def rename(self, path: str, name: str) -> None:
        """To another name in the same folder, in place of what has it."""
        with self.parent_of(path) as (folder, old):
            os.replace(old, name, src_dir_fd=folder, dst_dir_fd=folder)

    def link(self, path: str, target: str, by_way_of: str) -> None:
        """In place of what has the name, which is never away."""
        with self.parent_of(path) as (folder, name):
            with suppress(FileNotFoundError):
                os.unlink(by_way_of, dir_fd=folder)
            os.symlink(target, by_way_of, dir_fd=folder)
            os.replace(by_way_of, name, src_dir_fd=folder, dst_dir_fd=folder)


def part_of(path: str) -> str:
    """Where a file grows before it has its name. Short, since names have as many bytes as a system allows;
    the same each time, so that a fetch that broke off goes on."""
    folder, slash, name = path.rpartition("/")
    short = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    return f"{folder}{slash}.{short}{PART_SUFFIX}"


def open_regular(folder: int, name: str, flags: int, mode: int = 0o600) -> int:
    # Not blocking: a pipe would be waited at.
    descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode=mode, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.ELOOP, "it is no file", name)
    return descriptor


def _entered(folder: int, name: str) -> int:
    if name == ".":
        return os.dup(folder)
    for _ in range(TRIES):
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
        try:
            return os.open(name, FOLDER, dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT):
                raise
        with suppress(FileNotFoundError, IsADirectoryError):
            os.unlink(name, dir_fd=folder)
    raise OSError(errno.ELOOP, "something that is no folder is put there again and again", name)


def _looks(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
