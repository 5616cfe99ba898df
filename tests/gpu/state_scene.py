"""Parking, dumping and saving real training on a GPU, each compared with the same training left alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpunion.adapters import cuda
from gpunion.adapters.runtimes.keeper import control_files as sandbox_control
from gpunion.agent.program.gpu_release import AskedAside
from tests.gpu.state_programs import SAVED_WHILE_TRAINING, TRAIN, TRAINERS

GIB = 1024**3
LIMIT_S = 120.0
LOOK_S = 0.005
MOVE_LIMIT_S = 60.0
SLACK_BYTES = 256 * 1024**2  # contexts of other processes, which come and go
SOURCES = Path(__file__).resolve().parents[2] / "src"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where it is played: on a GPU, or rehearsed on a CPU with a made-up driver."""

    folder: Path
    device: str
    used_bytes: Callable[[], int]
    parked_pids: Callable[[int], tuple[int, ...]]  # which processes of a program have a GPU
    python: str = sys.executable

    @property
    def training(self) -> dict[str, object]:
        """How large the pieces of the training are, which steps of some milliseconds should need."""
        on_gpu = self.device == "cuda"
        return {"PIECE": 1 << (24 if on_gpu else 16), "WIDTH": 1024 if on_gpu else 64, "PAUSE": 0.01}

    def start(self, program: str, log: Path, **environment: object) -> subprocess.Popen[bytes]:
        with log.open("ab") as words:
            return subprocess.Popen(
                [self.python, "-c", program],
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                env={**_plain(), "DEVICE": self.device, **{k: str(v) for k, v in environment.items()}},
                start_new_session=True,
            )


# --- park ------------------------------------------------------------------------------------------


def park(stage: Stage, *, ballast_bytes: int, times: int, aside: bool = False) -> dict[str, Any]:
    """`aside`: the program is a loop of the library's and is asked to give up its GPU; the driver takes the
    rest."""
    folder = stage.folder / ("aside" if aside else "park")
    control = folder / "control"
    control.mkdir(parents=True)
    steps, wanted = 60 + 60 * times, {**stage.training, "BALLAST": ballast_bytes}
    alone = folder / "alone"
    began_s = time.monotonic()
    finish(stage.start(TRAIN, folder / "log", LOSSES=alone, STEPS=steps, **wanted), folder / "log")
    took_s = time.monotonic() - began_s
    idle_bytes, losses = stage.used_bytes(), folder / "parked"

    async def nudge() -> None:
        process.send_signal(signal.SIGUSR1)

    asked = AskedAside(sandbox_control, control, nudge) if aside else None
    more = {"GPUNION_CONTROL_DIR": control} if aside else {}
    process = stage.start(TRAIN, folder / "log", LOSSES=losses, STEPS=steps, **wanted, **more)
    parks = []
    try:
        for number in range(times):
            wait_for_lines(losses, 60 * (number + 1), process, folder / "log")
            parks.append(_park_once(stage, process.pid, idle_bytes, losses, asked))
    except BaseException:
        process.kill()
        raise
    finish(process, folder / "log")
    return {
        "ballast_bytes": ballast_bytes,
        "idle_bytes": idle_bytes,
        "alone_took_s": round(took_s, 2),
        "parks": parks,
        "losses": len(alone.read_text().splitlines()) - 1,
        "identical": alone.read_bytes() == losses.read_bytes(),
    }


def _park_once(
    stage: Stage, pid: int, idle_bytes: int, losses: Path, asked: AskedAside | None
) -> dict[str, Any]:
    before_bytes, aside_s, back_s = stage.used_bytes(), 0.0, 0.0
    with free_after(stage, idle_bytes + SLACK_BYTES) as freed:
        began_s = time.monotonic()
        pids = stage.parked_pids(pid)
        if asked is not None:
            asyncio.run(asked.step_aside(MOVE_LIMIT_S))
            aside_s = time.monotonic() - began_s
        costs = _costs(pid)
        moved = cuda.park(pids, MOVE_LIMIT_S)
        costs = {name: round(cost - costs[name], 2) for name, cost in _costs(pid).items()}
        os.kill(pid, signal.SIGSTOP)
        called_s = time.monotonic() - began_s
        until_s = time.monotonic() + 10.0
        while not freed and time.monotonic() < until_s:
            time.sleep(LOOK_S)
    lines, parked_bytes = losses.read_bytes().count(b"\n"), stage.used_bytes()
    time.sleep(1.0)
    still = losses.read_bytes().count(b"\n") == lines
    os.kill(pid, signal.SIGCONT)
    back = cuda.unpark(pids, MOVE_LIMIT_S)
    if asked is not None:
        back_began_s = time.monotonic()
        asyncio.run(asked.may_come_back())
        asyncio.run(asked.is_back(MOVE_LIMIT_S))
        back_s = time.monotonic() - back_began_s
    return {
        "used_before_bytes": before_bytes,
        "used_parked_bytes": parked_bytes,
        "memory_free_after_s": round(freed[0] - began_s, 3) if freed else None,
        "stepped_aside_s": round(aside_s, 3),
        "park_call_s": round(called_s, 3),
        "driver_s": round(moved.driver_s, 3),
        "driver_costs_the_program": costs,
        "stood_still": still,
        "unpark_call_s": round(back.took_s, 3),
        "unpark_driver_s": round(back.driver_s, 3),
        "came_back_s": round(back_s, 3),
    }


def _costs(pid: int) -> dict[str, float]:
    """What all threads of a process have taken so far: the driver works in one of them."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return {
        "page_faults": float(words[7]),
        "user_s": int(words[11]) / ticks,
        "system_s": int(words[12]) / ticks,
    }


@contextlib.contextmanager
def free_after(stage: Stage, limit_bytes: int) -> Iterator[list[float]]:
    """Fills with the moment from which the GPU's memory is down to the limit."""
    found: list[float] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set() and not found:
            if stage.used_bytes() <= limit_bytes:
                found.append(time.monotonic())
            time.sleep(LOOK_S)

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield found
    finally:
        over.set()
        looking.join()


# --- app -------------------------------------------------------------------------------------------


def save_while_training(
    stage: Stage, *, size: Mapping[str, int], quiet_s: float, seconds: float, every_s: float
) -> dict[str, Any]:
    """The same loop without saves before and after: a GPU that gets warm does not count as a stall."""
    before = _train_saved(stage, "before", size, quiet_s, None)
    saved = _train_saved(stage, "saved", size, seconds, every_s)
    after = _train_saved(stage, "after", size, quiet_s, None)
    alone_rate = (before["steps"] + after["steps"]) / (before["seconds"] + after["seconds"])
    lost_s = saved["seconds"] - saved["steps"] / alone_rate
    saves = len(saved["saves"])
    per_save_s = lost_s / max(1, saves)
    return {
        "without": [before, after],
        "with": saved,
        "saves": saves,
        "lost_s": round(lost_s, 3),
        "lost_share_as_run": round(lost_s / saved["seconds"], 5),
        "lost_per_save_s": round(per_save_s, 3),
        "lost_share_at_one_save_a_minute": round(per_save_s / 60.0, 5),
        "reported_share_at_one_save_a_minute": round(saved["stalled_s"] / max(1, saves) / 60.0, 5),
    }


def _train_saved(
    stage: Stage, name: str, size: Mapping[str, int], seconds: float, every_s: float | None
) -> dict[str, Any]:
    folder = stage.folder / "app" / name
    control, checkpoints = folder / "control", folder / "checkpoint"
    control.mkdir(parents=True)
    checkpoints.mkdir()
    process = stage.start(
        SAVED_WHILE_TRAINING,
        folder / "log",
        GPUNION_CONTROL_DIR=control,
        GPUNION_CHECKPOINT_DIR=checkpoints,
        GPUNION_RESUME=0,
        SECONDS=seconds,
        **size,
    )
    wait_until("it trains", lambda: (control / "ready").exists() or process.poll() is not None)
    began_s = time.monotonic()
    saves: list[dict[str, Any]] = []
    while process.poll() is None:
        next_s = began_s + every_s * (len(saves) + 0.5) if every_s else float("inf")
        if time.monotonic() >= next_s and time.monotonic() - began_s < seconds - 2.0:
            saves.append(_ask(control, f"save-{len(saves)}", process))
        time.sleep(0.02)
    finish(process, folder / "log")
    return {**result(folder / "log"), "saves": saves}


def _ask(
    control: Path, request: str, process: subprocess.Popen[bytes], *, final: bool = False
) -> dict[str, Any]:
    """As the agent does: the file, the signal, and the answer waited for."""
    asked_s = time.monotonic()
    fresh = control / ".request"
    fresh.write_text(json.dumps({"id": request, "deadline": None, "reason": "checkpoint", "final": final}))
    fresh.rename(control / "request.json")
    process.send_signal(signal.SIGUSR1)
    answer: dict[str, Any] = {}

    def answered() -> bool:
        answer.update(read_answer(control / "saved.json"))
        return answer.get("id") == request or process.poll() is not None

    wait_until(f"{request} is answered", answered)
    return {"durable_on_disk_after_s": round(time.monotonic() - asked_s, 3), "stall_s": answer.get("stall_s")}


# --- the trainers' own libraries ---------------------------------------------------------------------


def trainers(stage: Stage) -> dict[str, Any]:
    return {name: _trainer(stage, name, program) for name, program in TRAINERS.items()}


def _trainer(stage: Stage, name: str, program: str) -> dict[str, Any]:
    folder = stage.folder / name
    control, checkpoints = folder / "control", folder / "checkpoint"
    control.mkdir(parents=True)
    checkpoints.mkdir()
    steps = 300
    dirs = {"GPUNION_CONTROL_DIR": control, "GPUNION_CHECKPOINT_DIR": checkpoints, "STEPS": steps}
    finish(stage.start(program, folder / "alone", GPUNION_RESUME=0, **dirs), folder / "alone")
    process = stage.start(program, folder / "log", GPUNION_RESUME=0, **dirs)
    (control / "progress.json").unlink(missing_ok=True)
    wait_until("it trains", lambda: _step(control) > 0 or process.poll() is not None)
    asked = _ask(control, "last", process, final=True)
    code = process.wait(LIMIT_S)
    (control / "request.json").unlink()
    finish(stage.start(program, folder / "resumed", GPUNION_RESUME=1, **dirs), folder / "resumed")
    last, again = result(folder / "alone"), result(folder / "resumed")
    saved = read_answer(control / "saved.json")
    return {"exit_code": code, **asked, "saved_step": saved.get("step"), "identical": last == again}


def _step(control: Path) -> int:
    return int(read_answer(control / "progress.json").get("step") or 0)


# --- waiting ---------------------------------------------------------------------------------------


def finish(process: subprocess.Popen[bytes], log: Path) -> None:
    try:
        code = process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        code = -9
    if code != 0:
        raise RuntimeError(f"the program ended with {code}:\n{log.read_text(errors='replace')[-2000:]}")


def wait_for_lines(path: Path, count: int, process: subprocess.Popen[bytes], log: Path) -> None:
    def there() -> bool:
        return path.exists() and path.read_bytes().count(b"\n") >= count

    wait_until(f"{count} losses", lambda: there() or process.poll() is not None)
    if not there():
        finish(process, log)


def wait_until(what: str, look: Callable[[], bool]) -> None:
    until_s = time.monotonic() + LIMIT_S
    while not look():
        if time.monotonic() > until_s:
            raise RuntimeError(f"{what}: not within {LIMIT_S:.0f} s")
        time.sleep(LOOK_S)


def result(log: Path) -> Any:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise RuntimeError(f"no result:\n{log.read_text(errors='replace')[-2000:]}")
    return json.loads(lines[-1].removeprefix("RESULT "))


def read_answer(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found


def _plain() -> dict[str, str]:
    """The machine's own Python with its own packages, and our sources only."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**environment, "PYTHONPATH": str(SOURCES), "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
