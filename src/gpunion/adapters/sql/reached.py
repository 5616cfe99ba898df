"""A second witness beside the database: up to which commit it has got.

SQLite keeps what was committed last in a log of its own, and takes a log that was cut, or is gone, for one
that ended there: the commits in it are missing without a word. The number in this file is written after each
commit, so it is never ahead of what is on the disk, and a database that is behind it has lost something. A
power cut may leave it some seconds behind, which is no harm.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

SUFFIX = ".reached"
_LIMIT_BYTES = 128


class ReachedFile:
    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + SUFFIX)
        self._file: int | None = None

    @property
    def there(self) -> bool:
        return self.path.exists()

    def read(self) -> int | None:
        """None where it is not there or cannot be read."""
        try:
            words = self.path.read_bytes()[:_LIMIT_BYTES].decode("ascii").split()
            number = int(words[1])
        except (OSError, ValueError, IndexError):
            return None
        return number if _line(number).split() == [word.encode() for word in words] else None

    def begin(self, number: int) -> None:
        """Written whole, and on the disk when this returns."""
        self.close()
        fresh = self.path.with_name(self.path.name + ".new")
        file = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(file, _line(number), 0)
            os.fsync(file)
            os.replace(fresh, self.path)
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError:
            os.close(file)
            raise
        self._file = file

    def now_at(self, number: int) -> None:
        """In place, since the line has one length within one block: also where the disk is full."""
        if self._file is not None:
            with suppress(OSError):  # it is behind then, which is no harm
                os.pwrite(self._file, _line(number), 0)

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                os.fsync(self._file)
            os.close(self._file)
            self._file = None


def _line(number: int) -> bytes:
    digits = f"{number:020d}"
    check = blake2b(digits.encode(), digest_size=8).hexdigest()
    return f"commit {digits} {check}\n".encode()
