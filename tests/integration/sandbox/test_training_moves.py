"""The whole road of a job's state: a real training in a guest, saved, shipped, restored in another."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import gpunion
from gpunion.adapters.runtimes.keeper import control_files as control
from gpunion.adapters.runtimes.sandbox.runtime import SandboxRuntime
from gpunion.cli.demo.training_job import script_path
from gpunion.ports.runtime import ExitReason, GuestPaths, GuestSpec
from gpunion.vault.manifest import CheckpointLabel, Manifest
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.download import restore_directory
from gpunion.vault.transfer.ship import ship_directory
from tests.integration.sandbox.conftest import FOREVER_S, Host
from tests.real_machine import PATIENCE_S

pytest.importorskip("numpy")

EXAMPLE = script_path()
COMMAND = ("python", "train_numpy.py", "--seed", "3", "--steps", "300")


def a_run(epoch: int, *, step_seconds: str) -> GuestSpec:
    return GuestSpec(
        run_id=f"job-1-e{epoch}",
        job_id="job-1",
        epoch=epoch,
        command=(*COMMAND, "--step-seconds", step_seconds),
        environment={},
        gpu_indices=(),
        memory_bytes=0,
        cpus=0.0,
        resume=epoch > 1,
        work_source=str(EXAMPLE.parent),
    )


async def start(runtime: SandboxRuntime, spec: GuestSpec) -> GuestPaths:
    paths = await runtime.prepare(spec)
    await runtime.limit(spec.run_id, time.clock_gettime(time.CLOCK_BOOTTIME) + FOREVER_S, None)
    await runtime.start(spec)
    return paths


async def saved(
    runtime: SandboxRuntime, spec: GuestSpec, paths: GuestPaths, number: int, *, final: bool
) -> dict[str, object]:
    """Ask for a checkpoint as an agent does, and wait for the answer."""
    name = f"{spec.run_id}-c{number}"
    request = {"id": name, "deadline": 0.0, "reason": "test", "final": final}
    control.write_json(paths.control_dir, "request.json", request)
    await runtime.signal(spec.run_id, signal.SIGUSR1)
    give_up_s = time.monotonic() + PATIENCE_S
    while (answer := control.read_json(paths.control_dir, "saved.json") or {}).get("id") != name:
        assert time.monotonic() < give_up_s, paths.log_file.read_text()
        await asyncio.sleep(0.01)
    return answer


def shipped(vault: DirectoryVault, spec: GuestSpec, paths: GuestPaths, answer: dict[str, object]) -> Manifest:
    label = CheckpointLabel(
        checkpoint_id=str(answer["id"]),
        job_id=spec.job_id,
        epoch=spec.epoch,
        step=int(str(answer["step"])),
        progress=float(str(answer["progress"])),
        tier="app",
        created_s=0.0,
    )
    files = answer["files"]
    assert isinstance(files, list)
    return ship_directory(vault, paths.checkpoint_dir, label, files=[str(path) for path in files])


def uninterrupted(folder: Path) -> str:
    folder.mkdir()
    environment = {"PYTHONPATH": str(Path(gpunion.__file__).parents[1]), "PATH": os.defpath}
    subprocess.run(
        [sys.executable, str(EXAMPLE), *COMMAND[2:]],
        cwd=folder,
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return (folder / "weights.sha256").read_text()


async def test_a_training_that_was_moved_and_killed_ends_with_the_same_weights(
    host: Host, tmp_path: Path
) -> None:
    vault = DirectoryVault(tmp_path / "vault")
    runtime = host.runtime

    first = a_run(1, step_seconds="0.02")
    vault.begin("job-1", 1)
    paths = await start(runtime, first)
    answer = await saved(runtime, first, paths, 1, final=True)
    status = await runtime.wait_exit(first.run_id)
    assert (status.exit_reason, status.exit_code) == (ExitReason.EXITED, 85)
    shipped(vault, first, paths, answer)

    second = a_run(2, step_seconds="0.02")
    vault.begin("job-1", 2)
    latest = vault.latest("job-1")
    assert latest is not None
    paths = await runtime.prepare(second)
    restore_directory(vault, latest, paths.checkpoint_dir)
    await start(runtime, second)
    shipped(vault, second, paths, await saved(runtime, second, paths, 1, final=False))
    await runtime.kill(second.run_id, ExitReason.LOST)

    third = a_run(3, step_seconds="0")
    vault.begin("job-1", 3)
    latest = vault.latest("job-1")
    assert latest is not None
    assert latest.epoch == 2
    paths = await runtime.prepare(third)
    restore_directory(vault, latest, paths.checkpoint_dir)
    await start(runtime, third)
    status = await runtime.wait_exit(third.run_id)
    assert (status.exit_reason, status.exit_code) == (ExitReason.EXITED, 0), paths.log_file.read_text()
    assert (paths.output_dir / "weights.sha256").read_text() == uninterrupted(tmp_path / "alone")
