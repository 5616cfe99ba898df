"""A guest's output on disk, bounded."""

from __future__ import annotations

import os
import select

READ_BYTES = 64 * 1024
DRAIN_READS_MAX = 1024  # a process outside the guest that got hold of its output must not keep us here


class Log:
    """The guest's output, up to a bound. The beginning is kept; what comes after is read and dropped."""

    def __init__(self, path: str, limit_bytes: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._left_bytes = limit_bytes
        self._limit_bytes = limit_bytes

    def copy(self, source: int) -> bool:
        """One read; False at the end."""
        try:
            data = os.read(source, READ_BYTES)
        except BlockingIOError:
            return True
        if data and self._left_bytes > 0:
            self._write(data[: self._left_bytes])
            self._left_bytes -= len(data)
            if self._left_bytes <= 0:
                self._write(
                    b"\n[gpunion: the log reached %d bytes; later output is dropped]\n" % self._limit_bytes
                )
        return bool(data)

    def drain(self, source: int) -> None:
        for _ in range(DRAIN_READS_MAX):
            if not select.select([source], [], [], 0)[0] or not self.copy(source):
                return

    def note(self, words: str) -> None:
        """What the keeper has to say to the guest's user."""
        self._write(f"\n[gpunion: {words}]\n".encode())

    def _write(self, data: bytes) -> None:
        try:
            os.write(self._file, data)
        except OSError:
            return  # a full disk costs the guest its log, not its life
