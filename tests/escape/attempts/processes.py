"""Processes of the host and of another guest."""

from __future__ import annotations

import os
from pathlib import Path

from .trying import Targets, attempt, check, libc, nothing

PTRACE_ATTACH = 16


@attempt
def see_processes_of_the_host(host: Targets) -> object:
    return _processes_with(host["process_token"])


@attempt
def see_processes_of_another_guest(host: Targets) -> object:
    return _processes_with(host["neighbour_token"])


@attempt
def signal_a_process_of_the_host(host: Targets) -> object:
    os.kill(host["process_pid"], 0)
    return nothing() if not _processes_with_or_none(host["process_token"]) else "reached"


@attempt
def trace_a_process_of_the_host(host: Targets) -> object:
    return check(libc.ptrace(PTRACE_ATTACH, host["process_pid"], None, None))


@attempt
def trace_the_first_process(host: Targets) -> object:
    """The engine's or the sandbox's: its own shell may be traced, another user's may not."""
    if os.stat("/proc/1").st_uid == os.getuid():
        nothing()
    return check(libc.ptrace(PTRACE_ATTACH, 1, None, None))


@attempt
def read_memory_of_a_process_of_the_host(host: Targets) -> object:
    with open(f"/proc/{host['process_pid']}/mem", "rb") as file:
        if host["process_token"].encode() not in Path(f"/proc/{host['process_pid']}/cmdline").read_bytes():
            nothing()  # another process has that number in here
        return bool(file)


def _processes_with(token: str) -> object:
    return _processes_with_or_none(token) or nothing()


def _processes_with_or_none(token: str) -> list[str]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                if token.encode() in Path("/proc", name, "cmdline").read_bytes():
                    found.append(name)
            except OSError:
                continue
    return found
