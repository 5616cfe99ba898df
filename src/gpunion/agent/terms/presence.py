"""Is somebody at this machine? Logins as the system records them, and typing on its terminals.

Both are files anybody may look at; no daemon is asked. A graphical session counts as a login where its
display manager records it; its keyboard cannot be seen.
"""

from __future__ import annotations

import glob
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

UTMP_FILE = Path("/run/utmp")
TERMINALS = ("/dev/pts/[0-9]*", "/dev/tty[0-9]*")
# The kernel notes the time of typing in steps of eight seconds.
TYPING_S = 10.0
# As <utmp.h> of glibc lays it out: type, process, line, id, user, host, exit, session, time, address, rest.
_ENTRY = struct.Struct("<hxxi32s4s32s256shhiii4i20s")
_USER_PROCESS = 7
# A file with more entries than this is no record of logins.
_FILE_LIMIT_BYTES = 4096 * _ENTRY.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """Where to look. Paths of their own in tests."""

    utmp: Path = UTMP_FILE
    terminals: tuple[str, ...] = TERMINALS

    def logged_in(self) -> str:
        """Who, or nothing. Also nothing where there is no record of logins."""
        try:
            with open(self.utmp, "rb") as file:
                data = file.read(_FILE_LIMIT_BYTES)
        except OSError:
            return ""
        whole = len(data) - len(data) % _ENTRY.size
        sessions = [_session(entry) for entry in _ENTRY.iter_unpack(data[:whole])]
        return ", ".join(dict.fromkeys(session for session in sessions if session))

    def typing(self, now_unix_s: float) -> str:
        """On which terminal, or nothing."""
        for path in self._terminals():
            try:
                idle_s = now_unix_s - os.stat(path).st_atime
            except OSError:
                continue  # it was closed meanwhile
            if abs(idle_s) < TYPING_S:
                return path.removeprefix("/dev/")
        return ""

    def missing(self, *, login: bool, keyboard: bool) -> list[str]:
        """What was asked for and cannot be seen here, in words for the owner."""
        found = []
        if login and not self.utmp.exists():
            found.append(f"yield.login: nobody records logins here (there is no {self.utmp})")
        if keyboard and not any(True for _ in self._terminals()):
            found.append("yield.keyboard: there is no terminal here to watch")
        return found

    def _terminals(self) -> Iterable[str]:
        return (path for pattern in self.terminals for path in sorted(glob.glob(pattern)))


def _session(entry: tuple[int | bytes, ...]) -> str:
    kind, process, line, _, user = entry[:5]
    if not (isinstance(process, int) and isinstance(line, bytes) and isinstance(user, bytes)):
        return ""
    if kind != _USER_PROCESS or not os.path.exists(f"/proc/{process}"):
        return ""
    name, place = (part.partition(b"\0")[0].decode(errors="replace") for part in (user, line))
    return f"{name} on {place}"
