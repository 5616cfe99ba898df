"""Until when a guest may live, as its keeper knows it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from gpunion.files import NO_ROOM, overwrite_json, read_json, write_json

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


def leave_limits(
    path: str,
    lease_until_s: float | None,
    kill_at_s: float | None,
    write: Callable[[str, dict[str, object]], None] = lambda path, limits: write_json(
        path,
        limits,
        durable=False,  # it means nothing after a power cut
    ),
) -> None:
    """A full disk must not end a guest whose lease was renewed: then they are written in their own room.
    All is said twice, so that a mixture of old and new is noticed."""
    said = [lease_until_s, kill_at_s]
    limits: dict[str, object] = {"lease_until_s": lease_until_s, "kill_at_s": kill_at_s, "again": said}
    try:
        write(path, limits)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        overwrite_json(path, limits)


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
            if record.get("again", [lease, kill]) != [lease, kill]:  # an older agent says it once
                return  # half of it is old
            if lease is not None:
                self._lease_until_s = float(str(lease))
            self._kill_at_s = None if kill is None else float(str(kill))
            self._seen = (stat.st_ino, stat.st_mtime_ns)
        except (OSError, KeyError, ValueError):
            return  # absent or unreadable: what was promised last still holds
