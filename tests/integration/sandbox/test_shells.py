"""What is sent into guests holds no thread that the machine's owner needs, and ends with its user."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpunion.adapters.runtimes.keeper.streams.entering import ENTRY, terminal
from gpunion.tunnel.targets import Terminal

LIMIT_S = 30.0
HEAD = struct.Struct(">cH")
READS_NOTHING = ["/bin/sh", "-c", "sleep 1000"]


async def test_shells_that_stay_open_leave_the_loops_threads_to_the_owner() -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    environment = {"PATH": os.defpath}
    async with asyncio.timeout(LIMIT_S):
        open_ones = [
            await terminal(Terminal(24, 80), commands=[["/bin/cat"]], environment=environment)
            for _ in range(3)
        ]
        assert await asyncio.to_thread(lambda: "the owner's word") == "the owner's word"
        for number, one in enumerate(open_ones):
            word = str(number).encode()
            one.writer.write(HEAD.pack(b"d", len(word)) + word)
            assert await one.reader.readexactly(len(word)) == word
            one.writer.close()


def test_a_shell_ends_with_its_user_also_in_the_middle_of_a_paste_that_nobody_reads(tmp_path: Path) -> None:
    plan = {"kind": "terminal", "pid": 0, "commands": [READS_NOTHING], "environment": {"PATH": os.defpath}}
    plan_file = tmp_path / "plan.json"
    plan_file.write_text(json.dumps(plan | {"rows": 24, "columns": 80}))
    here, there = socket.socketpair()
    with here, there, open(plan_file, "rb") as told:
        process = subprocess.Popen(
            [sys.executable, "-m", ENTRY, str(there.fileno()), str(told.fileno())],
            pass_fds=(there.fileno(), told.fileno()),
        )
        there.close()
        here.settimeout(LIMIT_S)
        assert here.recv(1) == b"+"
        here.settimeout(1.0)
        with contextlib.suppress(TimeoutError):
            while True:
                here.sendall(HEAD.pack(b"d", 100) + b"pasted" * 16 + b"abc\n")
    try:
        process.wait(LIMIT_S)
    finally:
        process.kill()
