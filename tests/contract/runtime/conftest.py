"""Every runtime under one suite. A new one (Docker, Podman, a simulator's model) joins `RUNTIMES`."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpunion.adapters.runtimes.docker import open_docker
from gpunion.adapters.runtimes.podman.runtime import open_podman
from gpunion.adapters.runtimes.sandbox.runtime import SandboxRuntime
from gpunion.ports.runtime import ExitReason, GuestSpec, Runtime
from tests.real_machine import PATIENCE_S, now_s

# What the guests of this suite do. A runtime that runs no real programs brings its own meaning of the names.
PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "runs on": ("sleep", "100000"),
    "exits with 3": ("sh", "-c", "exit 3"),
    "ends by a signal": ("sh", "-c", "kill -TERM $$"),
    "is not there": ("no-such-program",),
    "leaves a line": ("sh", "-c", 'echo once >> "$GPUNION_OUTPUT_DIR/lines"'),
    "is told its output folder in its command": (
        "touch",
        "$GPUNION_OUTPUT_DIR/a",
        "${GPUNION_OUTPUT_DIR}/b$HOME",
    ),
    "speaks": ("sh", "-c", "echo to stdout; echo to stderr >&2"),
    "speaks endlessly": ("sh", "-c", "while :; do echo 0123456789012345678901234567890123456789; done"),
    "tells its environment": ("sh", "-c", 'env > "$GPUNION_OUTPUT_DIR/env"; pwd > "$GPUNION_OUTPUT_DIR/pwd"'),
    "imports a package": (
        "python",
        "-c",
        "import os, tiny\n"
        "open(os.environ['GPUNION_OUTPUT_DIR'] + '/seen', 'w').write(tiny.WORD)\n"
        "open(tiny.__file__, 'a').write('# changed')\n",
    ),
    "reads its code": ("sh", "-c", 'cat code.txt > "$GPUNION_OUTPUT_DIR/seen"'),
    "uses the job library": ("python", "-c", "import gpunion.sdk.job.training, numpy; print('imported')"),
    # Two forks and a session of its own, every signal ignored; {token} is found in the list of processes.
    "hides": (
        "python",
        "-c",
        "import os, signal, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        for signum in range(1, 32):\n"
        "            if signum not in (9, 19): signal.signal(signum, signal.SIG_IGN)\n"
        "        os.closerange(0, 3)\n"
        "        open(os.environ['GPUNION_OUTPUT_DIR'] + '/hidden', 'w').close()\n"
        "        time.sleep(100000)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "while not os.path.exists(os.environ['GPUNION_OUTPUT_DIR'] + '/hidden'): time.sleep(0.01)\n"
        "if sys.argv[2] == 'stay': time.sleep(100000)\n",
        "{token}",
        "{then}",
    ),
    # 64 MiB of its own, half a second of work in a child, and looked at at least twice.
    "works": (
        "python",
        "-c",
        "import os, time\n"
        "taken = bytearray(os.urandom(1024)) * (64 * 1024)\n"
        "if os.fork() == 0:\n"
        "    until_s = time.process_time() + 0.5\n"
        "    while time.process_time() < until_s: pass\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "time.sleep(2.5)\n",
    ),
    # A shell that does not listen, around a program that does.
    "listens for SIGUSR1": (
        "sh",
        "-c",
        'python -c "$0"; exit $?',
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))\n"
        "open(os.environ['GPUNION_OUTPUT_DIR'] + '/listening', 'w').close()\n"
        "time.sleep(100000)\n",
    ),
}


@dataclass
class Campus:
    """One runtime over one state directory, and what a test needs around it."""

    runtime: Runtime
    reopen: Callable[[], Runtime]
    state_dir: Path

    def guest(self, program: str, *, run_id: str = "job-1-e1", **changes: Any) -> GuestSpec:
        words = {"{token}": str(self.state_dir), "{then}": changes.pop("then", "stay")}
        fields: dict[str, Any] = {
            "run_id": run_id,
            "job_id": "job-1",
            "epoch": 1,
            "command": tuple(words.get(word, word) for word in PROGRAMS[program]),
            "environment": {},
            "gpu_indices": (),
            "memory_bytes": 1024**3,
            "cpus": 1.0,
            "resume": False,
            "work_source": None,
        }
        return GuestSpec(**(fields | changes))

    async def started(self, program: str, **changes: Any) -> GuestSpec:
        """A guest that runs and may for as long as any test takes."""
        spec = self.guest(program, **changes)
        await self.runtime.prepare(spec)
        await self.runtime.limit(spec.run_id, now_s() + 100_000.0, None)
        await self.runtime.start(spec)
        return spec


async def eventually(happened: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < give_up_s, "it did not happen"
        await asyncio.sleep(0.01)


def bubblewrap(state_dir: Path) -> Runtime:
    return SandboxRuntime(state_dir, log_limit_bytes=4096)


def process(state_dir: Path) -> Runtime:
    return SandboxRuntime(state_dir, allow_unsandboxed=True, use_bubblewrap=False, log_limit_bytes=4096)


def docker(state_dir: Path) -> Runtime:
    return open_docker(state_dir, log_limit_bytes=4096)


def podman(state_dir: Path) -> Runtime:
    return open_podman(state_dir, log_limit_bytes=4096)


RUNTIMES = [
    pytest.param(bubblewrap, marks=pytest.mark.requires("bwrap"), id="bubblewrap"),
    pytest.param(process, id="process"),
    pytest.param(docker, marks=pytest.mark.requires("docker"), id="docker"),
    pytest.param(podman, marks=pytest.mark.requires("podman"), id="podman"),
]


@pytest.fixture(params=RUNTIMES)
async def campus(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Campus]:
    build = request.param
    state_dir = tmp_path / "state"
    runtime = build(state_dir)
    yield Campus(runtime=runtime, reopen=lambda: build(state_dir), state_dir=state_dir)
    for status in await runtime.guests():
        await runtime.kill(status.run_id, ExitReason.STOPPED)
        await runtime.remove(status.run_id)


assert sys.platform == "linux", "guests need Linux"
