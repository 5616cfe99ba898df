"""A real container that stands parked is dumped as it stands and goes on elsewhere. Made up: the driver."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gpunion.adapters.runtimes.containers.freezing import limits_of
from gpunion.adapters.runtimes.podman.whole import PodmanRuntime
from gpunion.agent.checkpoints.whole_guest import DUMP_PART, bring_in
from gpunion.ports.checkpointer import DumpRefused
from gpunion.ports.runtime import ExitReason, GuestPaths
from tests.integration.parking.test_parked_guests import GRANTED_BYTES, STEPS_ASIDE, House, play, until

PARTS = ("checkpoint", "output", "scratch", "control")


@pytest.mark.requires("podman", "criu")
def test_one_that_stepped_aside_is_dumped_parked_and_comes_back_to_a_gpu_elsewhere(tmp_path: Path) -> None:
    here_on_gpu = tmp_path / "a" / "guests" / "job-e1" / "output" / "on-gpu"

    async def story(house: House) -> None:
        progress = house.program.control_dir / "progress.json"
        await until(lambda: progress.exists() and "true" in progress.read_text())
        await house.park()
        assert not here_on_gpu.exists()
        moved, reached = house.memory.on_host, house.counted()
        runtime = house.runtime
        assert isinstance(runtime, PodmanRuntime)
        with pytest.raises(DumpRefused, match="too long"):
            await runtime.dump("job-e1", tmp_path / "late", limit_s=0.1, parked=True)
        landing = tmp_path / "landing"
        await runtime.dump("job-e1", landing / DUMP_PART, limit_s=60.0, parked=True)
        # Whether it went well or not: nobody brought anything back, and it stands where it stood.
        assert await house.stands_still()
        assert (house.counted(), house.memory.on_host) == (reached, moved)
        note = house.parker.freezer.note("job-e1")
        assert note is not None
        assert note.frozen
        root = tmp_path / "a" / "guests" / "job-e1"
        for part in PARTS:
            shutil.copytree(root / part, landing / part)
        await runtime.kill("job-e1", ExitReason.STOPPED)
        await goes_on(House(folder=tmp_path / "b", shut_in="podman"), landing, reached)

    play(tmp_path / "a", story, shut_in="podman", command=("python3", "-c", STEPS_ASIDE))


async def goes_on(there: House, landing: Path, reached: int) -> None:
    there.command = ("python3", "-c", STEPS_ASIDE)
    runtime = there.runtime
    assert isinstance(runtime, PodmanRuntime)
    try:
        spec, paths = await there.prepared()
        lay_out(landing, paths)
        assert there.counted() == reached
        await runtime.restore(spec, bring_in(landing, landing.parent / "spool", paths))
        pids = there.freezer(there.folder).processes("job-e1")
        assert granted(pids) > 8 * GRANTED_BYTES  # what was on its GPU is in host memory until it is back
        await there.parker.came_back("job-e1", there.program)
        await until((paths.output_dir / "on-gpu").exists)
        await until(lambda: there.counted() > reached + 3)
        await until(lambda: granted(pids) == GRANTED_BYTES)
        assert not list(paths.control_dir.glob("*aside*"))
    finally:
        await there.end()


def lay_out(landing: Path, paths: GuestPaths) -> None:
    """As an agent does with the parts that every checkpoint has."""
    for part, place in (("checkpoint", paths.checkpoint_dir), ("output", paths.output_dir)):
        shutil.copytree(landing / part, place, dirs_exist_ok=True)


def granted(pids: frozenset[int]) -> int:
    files = limits_of(pids, "memory")
    if not files:
        pytest.skip("its engine limits nothing here")
    return max(int(Path(file).read_text()) for file in files)
