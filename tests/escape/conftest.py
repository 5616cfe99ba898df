"""The same guests on every runtime that calls itself sandboxed, and a host with something to find."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpunion.adapters.runtimes.docker import open_docker
from gpunion.adapters.runtimes.keeper.kept_runtime import KeptRuntime
from gpunion.adapters.runtimes.podman.runtime import open_podman
from gpunion.adapters.runtimes.sandbox.runtime import SandboxRuntime
from gpunion.ports.runtime import ExitReason, GuestSpec
from tests.conftest import require
from tests.real_machine import PATIENCE_S, eventually, now_s

FOREVER_S = 100_000.0
PROCESSES_MAX = 40
FORKS = 3 * PROCESSES_MAX
MEMORY_BYTES = 128 * 1024**2
DISK_BYTES = 32 * 1024**2
ATTEMPTS_DIR = Path(__file__).parent / "attempts"

OPENERS: dict[str, Callable[[Path], KeptRuntime]] = {
    "docker": lambda state_dir: open_docker(state_dir, processes_max=PROCESSES_MAX),
    "podman": lambda state_dir: open_podman(state_dir, processes_max=PROCESSES_MAX),
    "sandbox": lambda state_dir: SandboxRuntime(state_dir, processes_max=PROCESSES_MAX),
}
SERVICES = {"docker": "docker", "podman": "podman", "sandbox": "bwrap"}

# A guest next door: it has a secret file, a process with a name, and listens on its own loopback.
NEIGHBOUR = """
import os, socket, sys, time
out = os.environ["GPUNION_OUTPUT_DIR"]
server = socket.create_server(("127.0.0.1", 0))
open(out + "/secret", "w").write("secret of a guest")
open(out + "/port.part", "w").write(str(server.getsockname()[1]))
os.rename(out + "/port.part", out + "/port")
time.sleep(100000)
"""


@dataclass
class Lab:
    """One runtime with its state directory. Blocking on purpose: the guests are other processes."""

    runtime_name: str
    runtime: KeptRuntime
    state_dir: Path
    results: dict[str, str] = field(default_factory=dict)

    def start(
        self, run_id: str, *command: str, work_source: Path | None = None, network: bool = False
    ) -> Path:
        spec = GuestSpec(
            run_id=run_id,
            job_id="job-1",
            epoch=1,
            command=command,
            environment={},
            gpu_indices=(),
            memory_bytes=MEMORY_BYTES,
            cpus=1.0,
            resume=False,
            work_source=None if work_source is None else str(work_source),
            disk_bytes=DISK_BYTES,
            network=network,
        )
        asyncio.run(self._start(spec))
        return self.state_dir / "guests" / run_id

    async def _start(self, spec: GuestSpec) -> None:
        await self.runtime.prepare(spec)
        await self.runtime.limit(spec.run_id, now_s() + FOREVER_S, None)
        await self.runtime.start(spec)

    def ended(self, run_id: str) -> tuple[ExitReason | None, int | None]:
        status = asyncio.run(asyncio.wait_for(self.runtime.wait_exit(run_id), PATIENCE_S))
        return status.exit_reason, status.exit_code

    def close(self) -> None:
        for status in asyncio.run(self.runtime.guests()):
            asyncio.run(self.runtime.kill(status.run_id, ExitReason.STOPPED))
            asyncio.run(self.runtime.remove(status.run_id))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Everything of one runtime goes to one worker, where its guests are."""
    if "lab" in metafunc.fixturenames:
        params = [
            pytest.param(name, id=name, marks=pytest.mark.xdist_group(f"escape-{name}")) for name in OPENERS
        ]
        metafunc.parametrize("lab", params, indirect=True, scope="session")


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    require(SERVICES[request.param])
    state_dir = tmp_path_factory.mktemp(f"escape-{request.param}") / "state"
    opened = Lab(request.param, OPENERS[request.param](state_dir), state_dir)
    assert opened.runtime.sandboxed
    try:
        opened.results = try_everything(opened, tmp_path_factory.mktemp("host"))
        yield opened
    finally:
        opened.close()


def try_everything(lab: Lab, place: Path) -> dict[str, str]:
    code = place / "code"
    shutil.copytree(ATTEMPTS_DIR, code / ATTEMPTS_DIR.name, ignore=shutil.ignore_patterns("__pycache__"))
    neighbour_token, token = f"neighbour-{secrets.token_hex(8)}", f"owners-{secrets.token_hex(8)}"
    neighbour = lab.start("neighbour", "python", "-c", NEIGHBOUR, neighbour_token)
    eventually((neighbour / "output" / "port").exists)
    (place / "secret").write_text("secret of the owner")
    shared = Path("/dev/shm", f"gpunion-{token}")
    with (
        socket.create_server(("127.0.0.1", 0)) as loopback,
        socket.create_server(("127.0.0.1", 0)) as allowed,
        socket.socket(socket.AF_UNIX) as abstract,
        subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()", token], stdin=subprocess.PIPE
        ) as own,
    ):
        try:
            abstract.bind(f"\0{token}")
            abstract.listen()
            shared.write_text("shared memory of the owner")
            targets: dict[str, Any] = {
                "secret_file": str(place / "secret"),
                "state_dir": str(lab.state_dir),
                "neighbour_file": str(neighbour / "output" / "secret"),
                "neighbour_token": neighbour_token,
                "neighbour_port": int((neighbour / "output" / "port").read_text()),
                "shared_memory": shared.name,
                "process_token": token,
                "process_pid": own.pid,
                "host_port": loopback.getsockname()[1],
                "abstract_socket": token,
                "addresses": ["127.0.0.1", "127.0.0.2", "::1", "0.0.0.0"],
                "forks": FORKS,
            }
            (code / "targets.json").write_text(json.dumps(targets))
            lab.runtime.allow_places((f"127.0.0.1:{allowed.getsockname()[1]}",))
            root = lab.start(
                "burglar", "python", "-m", "attempts", "targets.json", work_source=code, network=True
            )
            assert lab.ended("burglar") == (ExitReason.EXITED, 0), (root / "log.txt").read_text()
        finally:
            shared.unlink(missing_ok=True)
            own.kill()
    results: dict[str, str] = json.loads((root / "output" / "results.json").read_text())
    return results
