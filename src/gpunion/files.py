"""Small files of ours: replaced whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Callable

# What a write answers on a disk, or in a quota, that has no room left.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def read_json(path: str) -> dict[str, object] | None:
    """The object in a file of ours; None when it is absent, or not an object."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_json(path: str, value: dict[str, object], *, durable: bool = True, private: bool = False) -> None:
    """Replace a file of ours whole or not at all. Not for directories a guest can write to."""
    temporary = f"{path}.{os.getpid()}.{time.monotonic_ns()}.tmp"
    try:
        with open(temporary, "x", encoding="utf-8", opener=_for_us_only if private else None) as file:
            json.dump(value, file)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.rename(temporary, path)
    except OSError:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    if durable:
        sync_directory(os.path.dirname(path))


def write_json_over(
    path: str,
    value: dict[str, object],
    spare: str,
    write: Callable[[str, dict[str, object]], None] = write_json,
) -> None:
    """As `write_json`. On a full disk in the room of `spare`, a file of ours that nobody needs any more."""
    try:
        write(path, value)
    except OSError as error:
        if error.errno not in NO_ROOM or not os.path.exists(spare):
            raise
        with open(spare, "r+", encoding="utf-8") as file:
            json.dump(value, file)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        os.rename(spare, path)


def overwrite_json(path: str, value: dict[str, object]) -> None:
    """Where it is, in its own room. Who reads meanwhile may find a mixture and has to notice it."""
    text = json.dumps(value).encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
    try:
        # One write, and blanks over what the former was longer.
        os.pwrite(descriptor, text.ljust(os.fstat(descriptor).st_size), 0)
    finally:
        os.close(descriptor)


def _for_us_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: os.PathLike[str], text: str) -> None:
    """An owner's own file, readable by nobody else. OSError where the disk does not take it; what was there
    before is there still."""
    folder, name = os.path.split(os.fspath(path))
    unfinished = os.path.join(folder, f".{name}.{os.getpid()}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(unfinished, path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)  # nothing of ours stays that nobody knows
        raise
    sync_directory(folder)
