"""Two machines' worth of Podman with CRIU: two state directories that know nothing of each other."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpunion.adapters.runtimes.podman.runtime import open_podman
from gpunion.adapters.runtimes.podman.whole import PodmanRuntime
from gpunion.owner_kill import kill_all, lift_kill
from gpunion.ports.runtime import GuestPaths, GuestSpec
from tests.real_machine import PATIENCE_S, eventually, now_s

FOREVER_S = 100_000.0

# A program that knows nothing of us: a number in memory, a file that stays open, a file that has no name any
# more, and what it prints.
COUNTING = """
import os, time
book = open("/gpunion/output/book", "w")
nameless = open("/gpunion/scratch/tmp/nameless", "w+")
os.unlink("/gpunion/scratch/tmp/nameless")
count = 0
while True:
    count += 1
    nameless.write("x")
    nameless.flush()
    assert os.fstat(nameless.fileno()).st_size == count
    book.write(f"{count}\\n")
    book.flush()
    print("at", count, flush=True)
    time.sleep(0.01)
"""


class Machine:
    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self.runtime: PodmanRuntime = open_podman(state_dir)

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(asyncio.wait_for(work, PATIENCE_S))

    def guest(self, epoch: int = 1, *command: str) -> GuestSpec:
        return GuestSpec(
            run_id=f"job-1-e{epoch}",
            job_id="job-1",
            epoch=epoch,
            command=command or ("python3", "-c", COUNTING),
            environment={},
            gpu_indices=(),
            memory_bytes=0,
            cpus=0.0,
            resume=epoch > 1,
            work_source=None,
        )

    def start(self, *command: str) -> GuestPaths:
        spec = self.guest(1, *command)
        paths = self.prepared(spec)
        self.do(self.runtime.start(spec))
        eventually(lambda: len(counted(paths)) > 3)
        return paths

    def prepared(self, spec: GuestSpec) -> GuestPaths:
        paths: GuestPaths = self.do(self.runtime.prepare(spec))
        self.do(self.runtime.limit(spec.run_id, now_s() + FOREVER_S, None))
        return paths

    def dump(self, into: Path, *, epoch: int = 1, limit_s: float = PATIENCE_S, parked: bool = False) -> None:
        self.do(self.runtime.dump(f"job-1-e{epoch}", into, limit_s=limit_s, parked=parked))

    def close(self) -> None:
        kill_all(self.state_dir)
        lift_kill(self.state_dir)
        for status in asyncio.run(self.runtime.guests()):
            asyncio.run(self.runtime.remove(status.run_id))


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[Machine, Machine]]:
    pair = (Machine(tmp_path / "a"), Machine(tmp_path / "b"))
    yield pair
    for machine in pair:
        machine.close()


def carry(source: GuestPaths, target: GuestPaths) -> None:
    for one, other in (
        (source.output_dir, target.output_dir),
        (source.scratch_dir, target.scratch_dir),
        (source.checkpoint_dir, target.checkpoint_dir),
    ):
        shutil.copytree(one, other, dirs_exist_ok=True)


def counted(paths: GuestPaths) -> list[int]:
    try:
        text = (paths.output_dir / "book").read_text(encoding="ascii")
    except FileNotFoundError:
        return []
    return [int(line) for line in text.split("\n")[:-1]]
