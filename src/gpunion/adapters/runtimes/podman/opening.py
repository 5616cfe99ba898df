"""Opens what Podman keeps from everybody but root, for the time of a restore.

What Podman binds in by itself, a container's name, hosts and shared memory, has paths that Podman chooses,
and CRIU goes there from inside the guest's user namespace. Until version 4 a container's directory there was
its own root's, and those above could be passed by anybody; from version 5 on all are root's alone. So they
are made as they were, and those above are shut again. Several guests may come back at once: whoever is last
shuts what any of them has opened, one that was killed in the middle too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator, Sequence

RECORD = "/run/gpunion-opened"  # a line for each directory: the mode it had, and its path
PODMANS = ("/run", "/var/lib/containers")  # elsewhere a machine's directories are left alone
ANYBODY_PASSES = stat.S_IXGRP | stat.S_IXOTH


class Opening:
    def __init__(self, record: int, within: Sequence[str]) -> None:
        self._record, self._within = record, within

    def reach(self, files: Iterable[str], root_inside: int) -> None:
        for file in filter(None, files):
            own = directory = os.path.dirname(os.path.realpath(file))
            while any(directory.startswith(f"{place}/") for place in self._within):
                with contextlib.suppress(FileNotFoundError):
                    self._open(directory, root_inside if directory == own else None)
                directory = os.path.dirname(directory)

    def _open(self, directory: str, owner: int | None) -> None:
        mode = stat.S_IMODE(os.stat(directory).st_mode)
        if mode & stat.S_IXOTH:
            return
        if owner is not None:
            os.chown(directory, owner, owner)  # it goes with its container
            return
        os.write(self._record, os.fsencode(f"{mode:o} {directory}\n"))
        os.chmod(directory, mode | ANYBODY_PASSES)


@contextlib.contextmanager
def opening(record: str = RECORD, within: Sequence[str] = PODMANS) -> Iterator[Opening]:
    descriptor = os.open(record, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        try:
            yield Opening(descriptor, within)
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            with contextlib.suppress(BlockingIOError):  # somebody else is at it, and shuts what is open
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _shut(descriptor)
    finally:
        os.close(descriptor)


def _shut(record: int) -> None:
    with open(os.dup(record), encoding="utf-8", errors="surrogateescape") as file:
        file.seek(0)
        lines = file.read().splitlines()
    for line in lines:
        mode, _, directory = line.partition(" ")
        with contextlib.suppress(FileNotFoundError, ValueError):  # the latter: cut short by a full disk
            if stat.S_IMODE(os.stat(directory).st_mode) == int(mode, 8) | ANYBODY_PASSES:
                os.chmod(directory, int(mode, 8))
    os.ftruncate(record, 0)
