"""The owner's own files: written whole or not at all, readable by nobody else."""

from __future__ import annotations

import os
from pathlib import Path

from gpunion.owner_kill.records import sync_directory


def write_whole(path: Path, text: str) -> None:
    """OSError where the disk does not take it; what was there before is there still."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(unfinished, path)
    except OSError:
        unfinished.unlink(missing_ok=True)  # nothing of ours stays that nobody knows
        raise
    sync_directory(os.fspath(path.parent))
