"""What in this guest keeps it from being dumped as a whole: seen beforehand, so that nobody relies on it."""

from __future__ import annotations

import os
from pathlib import Path

ESTABLISHED = "01"
PROCESSES_MAX = 2000
# Shells that open /dev/tty by themselves: a dump refuses their terminals.
SHELLS = frozenset({"sh", "dash", "busybox"})


def why_not_whole(proc: Path = Path("/proc")) -> str:
    """Empty: nothing is known that would."""
    port = _connected_port(proc)
    if port is not None:
        return f"a TCP connection inside of it is open (port {port}: a debugger, or workers of a library)"
    shell = _shell_on_a_terminal(proc)
    if shell:
        return f"a terminal in it runs {shell}, which cannot be dumped; bash can"
    return ""


def _connected_port(proc: Path) -> int | None:
    for name in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / name).read_text(encoding="ascii", errors="replace").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 3 and fields[3] == ESTABLISHED:
                return int(fields[1].rsplit(":", 1)[1], 16)
    return None


def _shell_on_a_terminal(proc: Path) -> str:
    processes = (name for name in os.listdir(proc) if name.isdecimal())
    for _, pid in zip(range(PROCESSES_MAX), processes, strict=False):
        try:
            told = (proc / pid / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        name = told.partition("(")[2].rpartition(")")[0]
        fields = told.rpartition(")")[2].split()
        if name in SHELLS and len(fields) > 4 and fields[4] != "0":  # its controlling terminal
            return name
    return ""
