"""What becomes of a program with something on a GPU when it is dumped whole, killed and brought back."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from gpunion.adapters import cuda
from gpunion.adapters.runtimes.keeper import control_files as sandbox_control
from gpunion.agent.program.gpu_release import AskedAside
from tests.gpu.state_programs import TRAIN
from tests.gpu.state_scene import (
    LIMIT_S,
    MOVE_LIMIT_S,
    Stage,
    finish,
    read_answer,
    wait_for_lines,
    wait_until,
)


def dump_and_restore(stage: Stage, *, ballast_bytes: int, criu: str) -> dict[str, Any]:
    """Has to run as the first process of a PID namespace: the dumped process gets its old number back."""
    folder = stage.folder / "criu"
    images = folder / "images"
    images.mkdir(parents=True)
    wanted = {**stage.training, "BALLAST": ballast_bytes, "STEPS": 240}
    alone, losses = folder / "alone", folder / "restored"
    finish(stage.start(TRAIN, folder / "log", LOSSES=alone, **wanted), folder / "log")
    process = stage.start(TRAIN, folder / "log", LOSSES=losses, **wanted)
    wait_for_lines(losses, 120, process, folder / "log")
    found: dict[str, Any] = {"ballast_bytes": ballast_bytes}
    pids = stage.parked_pids(process.pid)
    moved = cuda.park(pids, MOVE_LIMIT_S)
    found["park_s"] = round(moved.took_s, 3)
    found["dump_s"] = _criu(criu, "dump", images, "--tree", str(process.pid))
    process.wait()
    found["dumped_at"] = losses.read_bytes().count(b"\n")
    found["image_bytes"] = sum(path.stat().st_size for path in images.iterdir())
    found["gone"] = not os.path.exists(f"/proc/{process.pid}")
    found["restore_s"] = _criu(criu, "restore", images, "--restore-detached")
    back = cuda.unpark(pids, MOVE_LIMIT_S)
    found["unpark_s"] = round(back.took_s, 3)
    until_s = time.monotonic() + LIMIT_S
    while b"end" not in losses.read_bytes() and time.monotonic() < until_s:
        time.sleep(0.05)
    found["losses"] = len(alone.read_text().splitlines()) - 1
    found["identical"] = alone.read_bytes() == losses.read_bytes()
    return found


def dump_parked(stage: Stage, *, ballast_bytes: int, criu: str, stands_s: float) -> dict[str, Any]:
    """A program that has stepped aside, was parked and stands still is dumped as it stands: the driver is not
    asked again before it is back. Has to run as the first process of a PID namespace too."""
    folder = stage.folder / "parked-dump"
    images, control = folder / "images", folder / "control"
    images.mkdir(parents=True)
    control.mkdir()
    wanted = {**stage.training, "BALLAST": ballast_bytes, "STEPS": 240}
    alone, losses = folder / "alone", folder / "restored"
    finish(stage.start(TRAIN, folder / "log", LOSSES=alone, **wanted), folder / "log")
    idle_bytes = stage.used_bytes()
    process = stage.start(TRAIN, folder / "log", LOSSES=losses, GPUNION_CONTROL_DIR=control, **wanted)
    wait_for_lines(losses, 120, process, folder / "log")

    async def nudge() -> None:
        os.kill(process.pid, signal.SIGUSR1)

    asked = AskedAside(sandbox_control, control, nudge)
    found: dict[str, Any] = {"ballast_bytes": ballast_bytes, "idle_bytes": idle_bytes}
    began_s = time.monotonic()
    pids = stage.parked_pids(process.pid)
    asyncio.run(asked.step_aside(MOVE_LIMIT_S))
    found["stepped_aside"] = read_answer(control / "stepped-aside.json").get("done") is True
    cuda.park(pids, MOVE_LIMIT_S)
    os.kill(process.pid, signal.SIGSTOP)
    found["parked_after_s"] = round(time.monotonic() - began_s, 3)
    lines = losses.read_bytes().count(b"\n")
    time.sleep(stands_s)
    found["used_parked_bytes"] = stage.used_bytes()
    found["dump_s"] = _criu(criu, "dump", images, "--tree", str(process.pid))
    process.wait()
    found["used_dumped_bytes"] = stage.used_bytes()
    found["dumped_at"] = losses.read_bytes().count(b"\n")
    found["stood_still"] = found["dumped_at"] == lines
    found["image_bytes"] = sum(path.stat().st_size for path in images.iterdir())
    found["gone"] = not os.path.exists(f"/proc/{process.pid}")
    (control / "aside.json").unlink(missing_ok=True)  # as the agent does that lays a dump out elsewhere
    found["restore_s"] = _criu(criu, "restore", images, "--restore-detached")
    back_s = time.monotonic()
    os.kill(process.pid, signal.SIGCONT)
    found["unpark_s"] = round(cuda.unpark(pids, MOVE_LIMIT_S).took_s, 3)
    found["came_back"] = asyncio.run(asked.is_back(MOVE_LIMIT_S))
    found["back_after_s"] = round(time.monotonic() - back_s, 3)
    wait_until("the restored training ends", lambda: b"end" in losses.read_bytes())
    found["losses"] = len(alone.read_text().splitlines()) - 1
    found["identical"] = alone.read_bytes() == losses.read_bytes()
    return found


def _criu(criu: str, verb: str, images: Path, *options: str) -> float:
    log = images.parent / f"{verb}.log"
    command = [
        criu,
        verb,
        "--images-dir",
        str(images),
        "--log-file",
        str(log),
        "-v4",
        "--file-locks",
        *options,
    ]
    began_s = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode != 0:
        words = log.read_text(errors="replace").splitlines() if log.exists() else []
        errors = [line for line in words if "Error" in line][-15:]
        raise RuntimeError(f"criu {verb} failed: {done.stderr[-500:]}\n" + "\n".join(errors or words[-15:]))
    return round(time.monotonic() - began_s, 3)
