"""Locks between processes and machines, by flock: NFS carries them to the server."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gpunion.vault.manifest import UnknownCheckpoint, VaultFull, VaultUnavailable

# A seal or a begin takes milliseconds; a collection on a slow server may take this long.
LOCK_LIMIT_S = 60.0
LOCK_POLL_S = 0.01


@contextmanager
def locked(path: Path, *, shared: bool = False, limit_s: float = LOCK_LIMIT_S) -> Iterator[None]:
    """Hold the lock of that file (made when absent). The system frees it when the holder dies."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _acquire(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, limit_s, path)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """The system's errors as the vault's faults."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise VaultFull(f"{what}: no space left in the vault") from error
        raise VaultUnavailable(f"{what}: {error.strerror or error}") from error


def hold_file(path: Path) -> BinaryIO:
    """Hold a manifest, until the result is closed, against `if_not_held`. `UnknownCheckpoint`: it is gone."""
    try:
        file = open(path, "rb")  # noqa: SIM115 - the caller closes it
    except FileNotFoundError:
        raise UnknownCheckpoint(f"{path.stem} was forgotten a moment ago") from None
    try:
        _acquire(file.fileno(), fcntl.LOCK_SH, LOCK_LIMIT_S, path)
        if not os.path.samestat(os.stat(path), os.fstat(file.fileno())):
            raise FileNotFoundError
    except FileNotFoundError:
        file.close()
        raise UnknownCheckpoint(f"{path.stem} was forgotten a moment ago") from None
    except BaseException:
        file.close()
        raise
    return file


@contextmanager
def if_not_held(path: Path) -> Iterator[bool]:
    """Whether nobody holds the file; nobody can begin to within the block."""
    with open(path, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _acquire(descriptor: int, kind: int, limit_s: float, path: Path) -> None:
    give_up_s = time.monotonic() + limit_s
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= give_up_s:
                raise VaultUnavailable(f"{path.name} of the vault is held for over {limit_s:.0f} s") from None
            time.sleep(LOCK_POLL_S)
