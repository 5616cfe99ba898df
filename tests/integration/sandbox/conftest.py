"""Real guests on this machine, with and without bubblewrap."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpunion
from gpunion.adapters.runtimes.sandbox.runtime import SandboxRuntime
from gpunion.owner_kill import kill_all
from gpunion.ports.runtime import GuestSpec

FOREVER_S = 100_000.0

MODES = [
    pytest.param(True, marks=pytest.mark.requires("bwrap"), id="bubblewrap"),
    pytest.param(False, id="process"),
]

# An agent reduced to what matters here: it starts one guest, says so, and then does nothing.
AGENT = """
import asyncio, sys, time
from gpunion.adapters.runtimes.sandbox.runtime import SandboxRuntime
from gpunion.ports.runtime import GuestSpec

async def main(state_dir, bubblewrap, lease_s, command):
    runtime = SandboxRuntime(state_dir, allow_unsandboxed=True, use_bubblewrap=bubblewrap)
    spec = GuestSpec(run_id="job-1-e1", job_id="job-1", epoch=1, command=tuple(command), environment={},
                     gpu_indices=(), memory_bytes=0, cpus=0.0, resume=False, work_source=None)
    await runtime.prepare(spec)
    await runtime.limit("job-1-e1", time.clock_gettime(time.CLOCK_BOOTTIME) + lease_s, None)
    await runtime.start(spec)
    print("started", flush=True)
    time.sleep(100000)

asyncio.run(main(sys.argv[1], sys.argv[2] == "True", float(sys.argv[3]), sys.argv[4:]))
"""


class Host:
    """A machine with a state directory. Blocking on purpose: the agents here are other processes."""

    def __init__(self, state_dir: Path, bubblewrap: bool) -> None:
        self.state_dir = state_dir
        self.bubblewrap = bubblewrap
        self.runtime = SandboxRuntime(state_dir, allow_unsandboxed=True, use_bubblewrap=bubblewrap)
        self.children: list[subprocess.Popen[str]] = []

    def guest(
        self, *command: str, run_id: str = "job-1-e1", environment: dict[str, str] | None = None
    ) -> GuestSpec:
        return GuestSpec(
            run_id=run_id,
            job_id="job-1",
            epoch=1,
            command=command,
            environment=environment or {},
            gpu_indices=(),
            memory_bytes=0,
            cpus=0.0,
            resume=False,
            work_source=None,
        )

    def start(self, *command: str, run_id: str = "job-1-e1") -> Path:
        """A guest of a runtime in this process; returns its directory."""
        asyncio.run(self._start(self.guest(*command, run_id=run_id)))
        return self.state_dir / "guests" / run_id

    async def _start(self, spec: GuestSpec) -> None:
        await self.runtime.prepare(spec)
        await self.runtime.limit(spec.run_id, time.clock_gettime(time.CLOCK_BOOTTIME) + FOREVER_S, None)
        await self.runtime.start(spec)

    def output_of(self, program: str) -> str:
        """What a Python program prints as a guest."""
        root = self.start("python", "-c", program, run_id="prints")
        asyncio.run(self.runtime.wait_exit("prints"))
        return (root / "log.txt").read_text()

    def agent(self, *command: str, lease_s: float = FOREVER_S) -> subprocess.Popen[str]:
        """Another process with a guest of its own, already running."""
        words = [
            sys.executable,
            "-c",
            AGENT,
            str(self.state_dir),
            str(self.bubblewrap),
            str(lease_s),
            *command,
        ]
        child = self.python(words)
        assert child.stdout is not None
        assert child.stdout.readline() == "started\n"
        return child

    def python(self, words: list[str]) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(Path(gpunion.__file__).parents[1])}
        child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
        self.children.append(child)
        return child

    def close(self) -> None:
        kill_all(self.state_dir)
        for child in self.children:
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()


@pytest.fixture(params=MODES)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    opened = Host(tmp_path / "state", request.param)
    yield opened
    opened.close()


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Host]:
    opened = Host(tmp_path / "state", True)
    assert opened.runtime.sandboxed
    yield opened
    opened.close()
