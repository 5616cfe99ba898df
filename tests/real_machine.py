"""What tests with real processes ask of this machine: the time, who lives, and patience."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 60.0  # for what must happen; how soon is not what these tests ask


def now_s() -> float:
    """As agents count it: also while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def eventually(happened: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < give_up_s, "it did not happen"
        time.sleep(0.01)


def processes_with(token: str) -> list[int]:
    """Living processes, but for this one, with the token as a word of their command line."""
    return [pid for pid, line in command_lines().items() if token.encode() in line.split(b"\0")]


def command_lines() -> dict[int, bytes]:
    """Of every process but this one. Some end while they are listed, which is no fault."""
    lines = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                lines[int(name)] = Path("/proc", name, "cmdline").read_bytes()
    return lines


def open_files(pid: int) -> dict[int, str]:
    """What a process has open, by descriptor; without those that it closed while they were listed."""
    folder = Path("/proc", str(pid), "fd")
    found = {}
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            found[int(name)] = os.readlink(folder / name)
    return found
