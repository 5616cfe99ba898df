"""The real signs of somebody at the machine: logins and typing, as the system has them."""

from __future__ import annotations

import os
import pty
import struct
import time
from pathlib import Path

from gpunion.agent.terms.presence import Signs


def utmp_entry(kind: int, pid: int, line: str, user: str) -> bytes:
    head = struct.pack("<hxxi32s4s32s", kind, pid, line.encode(), b"1", user.encode())
    return head.ljust(384, b"\0")


def test_logins_are_read_as_the_system_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "utmp"
    signs = Signs(utmp=path, terminals=())
    assert signs.logged_in() == ""
    path.write_bytes(
        utmp_entry(2, 0, "~", "reboot")
        + utmp_entry(7, os.getpid(), "pts/0", "kim")
        + utmp_entry(7, 2**22 + 1, "pts/1", "gone")  # no process has that number
        + utmp_entry(8, os.getpid(), "pts/2", "left")
        + b"half an entry"
    )
    assert signs.logged_in() == "kim on pts/0"
    assert signs.missing(login=True, keyboard=True) == ["yield.keyboard: there is no terminal here to watch"]


def test_typing_on_a_real_terminal_is_seen() -> None:
    ours, theirs = pty.openpty()
    try:
        path = os.ttyname(theirs)
        signs = Signs(terminals=(path, "/dev/pts/none*"))
        os.utime(path, (time.time() - 3600, time.time() - 3600))
        assert signs.typing(time.time()) == ""
        os.write(ours, b"ls\n")
        os.read(theirs, 10)
        assert signs.typing(time.time()) == path.removeprefix("/dev/")
    finally:
        os.close(ours)
        os.close(theirs)
