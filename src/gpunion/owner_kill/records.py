"""Small files of ours: replaced whole or not at all."""

from __future__ import annotations

import json
import os
import time


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


def _for_us_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
