"""Real containers on this machine, in both engines."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import gpunion
from gpunion.adapters.runtimes.containers.runtime import ContainerRuntime, container_name
from gpunion.adapters.runtimes.docker import open_docker
from gpunion.adapters.runtimes.podman.runtime import open_podman
from gpunion.owner_kill import kill_all, lift_kill
from gpunion.ports.runtime import ExitReason, GuestSpec
from tests.real_machine import PATIENCE_S, now_s

FOREVER_S = 100_000.0

OPENERS: dict[str, Callable[..., ContainerRuntime]] = {"docker": open_docker, "podman": open_podman}
ENGINES = [pytest.param(name, marks=pytest.mark.requires(name), id=name) for name in OPENERS]

# An agent reduced to what matters here: it starts one guest, says so, and then does nothing.
AGENT = """
import asyncio, sys, time
from {module} import open_{engine}
from gpunion.ports.runtime import GuestSpec

async def main(state_dir, lease_s, command):
    runtime = open_{engine}(state_dir)
    spec = GuestSpec(run_id="job-1-e1", job_id="job-1", epoch=1, command=tuple(command), environment={{}},
                     gpu_indices=(), memory_bytes=0, cpus=0.0, resume=False, work_source=None)
    await runtime.prepare(spec)
    await runtime.start(spec)
    await runtime.limit("job-1-e1", time.clock_gettime(time.CLOCK_BOOTTIME) + lease_s, None)
    print("started", flush=True)
    time.sleep(100000)

asyncio.run(main(sys.argv[1], float(sys.argv[2]), sys.argv[3:]))
"""


class Host:
    """A machine with an engine and a state directory. Blocking on purpose: the agents are other processes."""

    def __init__(self, engine: str, state_dir: Path) -> None:
        self.engine = engine
        self.state_dir = state_dir
        self.runtime = OPENERS[engine](state_dir)
        self.children: list[subprocess.Popen[str]] = []

    def guest(self, *command: str, environment: dict[str, str] | None = None) -> GuestSpec:
        return GuestSpec(
            run_id="job-1-e1",
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

    def start(self, *command: str, environment: dict[str, str] | None = None) -> Path:
        asyncio.run(self._start(self.guest(*command, environment=environment)))
        return self.root

    async def _start(self, spec: GuestSpec) -> None:
        await self.runtime.prepare(spec)
        await self.runtime.limit(spec.run_id, now_s() + FOREVER_S, None)
        await self.runtime.start(spec)

    @property
    def root(self) -> Path:
        return self.state_dir / "guests" / "job-1-e1"

    def ended(self) -> tuple[ExitReason | None, int | None]:
        status = asyncio.run(asyncio.wait_for(self.runtime.wait_exit("job-1-e1"), PATIENCE_S))
        return status.exit_reason, status.exit_code

    def has_container(self) -> bool:
        name = container_name("job-1-e1", self.root)
        answer = subprocess.run([self.engine, "inspect", "--type", "container", name], capture_output=True)
        return answer.returncode == 0

    def agent(self, *command: str, lease_s: float = FOREVER_S) -> subprocess.Popen[str]:
        """Another process with a guest of its own, already running."""
        program = AGENT.format(module=OPENERS[self.engine].__module__, engine=self.engine)
        words = [sys.executable, "-c", program, str(self.state_dir), str(lease_s), *command]
        environment = {**os.environ, "PYTHONPATH": str(Path(gpunion.__file__).parents[1])}
        child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)
        self.children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "started\n"
        return child

    def close(self) -> None:
        for child in self.children:
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()
        kill_all(self.state_dir)
        lift_kill(self.state_dir)
        for status in asyncio.run(self.runtime.guests()):
            asyncio.run(self.runtime.remove(status.run_id))


@pytest.fixture(params=ENGINES)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    opened = Host(request.param, tmp_path / "state")
    yield opened
    opened.close()
