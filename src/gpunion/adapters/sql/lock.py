"""One coordinator a database file, kept by the operating system.

A lease in a table would keep a restarted coordinator waiting for its own dead self; a file lock is free the
moment its holder is gone, however it went.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from gpunion.ports.database import StoreBroken, StoreTaken

HOLDER_LIMIT_BYTES = 256


class FileLock:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def take(self, holder: str) -> None:
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreBroken(f"cannot open {self._path}: {error.strerror}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            other = os.read(file, HOLDER_LIMIT_BYTES).decode(errors="replace").strip() or "unknown"
            os.close(file)
            raise StoreTaken(
                f"another coordinator ({other}) is using {self._path.with_suffix('')}"
            ) from error
        os.ftruncate(file, 0)
        os.pwrite(file, holder.encode()[:HOLDER_LIMIT_BYTES], 0)
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
