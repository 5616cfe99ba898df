"""Looks at processes from outside: are they shut in as a guest's must be?

A dump says itself which rights its processes have. Who forged one must not get more than any guest.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

NAMESPACES = ("mnt", "net", "pid", "ipc", "uts")
NO_CAPABILITIES = 0
SECCOMP_FILTER = "2"


def not_confined(pids: Iterable[int], host_id: int) -> str:
    """Empty when all of them are; else what is wrong with the first that is not."""
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # gone meanwhile: it harms nobody
            why = _wrong_with(pid, host_id)
            if why:
                return why
    return ""


def _wrong_with(pid: int, host_id: int) -> str:
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    if set(status["Uid"].split()) != {str(host_id)}:
        return f"process {pid} is user {status['Uid'].split()[0]}, not {host_id}"
    if any(int(status[name], 16) != NO_CAPABILITIES for name in ("CapPrm", "CapEff", "CapBnd")):
        return f"process {pid} has capabilities"
    if status["NoNewPrivs"] != "1" or status["Seccomp"] != SECCOMP_FILTER:
        return f"process {pid} may gain rights or use any system call"
    shared = [name for name in NAMESPACES if _namespace(pid, name) == _namespace(os.getpid(), name)]
    return f"process {pid} shares this machine's {', '.join(shared)} namespace" if shared else ""


def _namespace(pid: int, name: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/{name}")
