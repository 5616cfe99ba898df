"""Until when a guest may live, as its keeper knows it."""

from __future__ import annotations

import os
import time

from gpunion.owner_kill.records import read_json

# A guest that nobody has limited yet: longer than an agent needs from start to limit, shorter than anybody
# would wait before restarting the job elsewhere.
FIRST_LEASE_S = 15.0

# The names of ports.runtime.ExitReason, not imported: its dataclasses would triple the time to start.
LEASE_ENDED, DEADLINE = "lease_ended", "deadline"


class ExtraMemory:
    """How much more than it was granted a guest may take: what it has parked in memory."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._bytes = 0

    def bytes(self) -> int:
        try:
            stat = os.stat(self._path)
            if (stat.st_ino, stat.st_mtime_ns) != self._seen:
                self._bytes = int(str((read_json(self._path) or {})["extra_bytes"]))
                self._seen = (stat.st_ino, stat.st_mtime_ns)
        except (OSError, KeyError, ValueError):
            return self._bytes
        return self._bytes


class Limits:
    """The newest limits the agent left, read again when the file changes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._lease_until_s: float | None = time.clock_gettime(time.CLOCK_BOOTTIME) + FIRST_LEASE_S
        self._kill_at_s: float | None = None

    def passed(self, now_s: float) -> str:
        self._refresh()
        if self._kill_at_s is not None and now_s >= self._kill_at_s:
            return DEADLINE
        if self._lease_until_s is not None and now_s >= self._lease_until_s:
            return LEASE_ENDED
        return ""

    def _refresh(self) -> None:
        try:
            stat = os.stat(self._path)
            if (stat.st_ino, stat.st_mtime_ns) == self._seen:
                return
            record = read_json(self._path) or {}
            lease, kill = record["lease_until_s"], record["kill_at_s"]
            if lease is not None:
                self._lease_until_s = float(str(lease))
            self._kill_at_s = None if kill is None else float(str(kill))
            self._seen = (stat.st_ino, stat.st_mtime_ns)
        except (OSError, KeyError, ValueError):
            return  # absent or unreadable: what was promised last still holds
