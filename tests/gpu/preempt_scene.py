"""The play with an urgent job: it takes the only card of a training that was never written for that, which
stands still in memory meanwhile and goes on to exactly the losses of the same training left alone."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpunion
from gpunion.cli.demo.campus import LocalCampus
from tests.gpu.scene import NODE, Scene, without_our_paths
from tests.gpu.state_programs import TRAIN

GIB = 1024**3
BAR_S = 3.0  # beside the park's own time
COMPUTES_S = 5.0
# Tells when it began, and when the card had done what it asked for: no library but the driver's own.
URGENT = """
import ctypes, time
print("BEGAN %.6f" % time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    if status:
        raise SystemExit("%s: %d" % (name, status))
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(1 << 20))
call("cuMemsetD8_v2", memory, ctypes.c_ubyte(1), ctypes.c_size_t(1 << 20))
call("cuCtxSynchronize")
print("FIRST %.6f" % time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
time.sleep({computes_s})
"""
REHEARSED_URGENT = """
import time
print("BEGAN %.6f" % time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
print("FIRST %.6f" % time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
time.sleep({computes_s})
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    ballast_bytes: int
    steps: int
    piece: int
    width: int
    device: str = "cuda"

    def environment(self, losses: str) -> dict[str, str]:
        return {
            "LOSSES": losses,
            "STEPS": str(self.steps),
            "BALLAST": str(self.ballast_bytes),
            "PIECE": str(self.piece),
            "WIDTH": str(self.width),
            "DEVICE": self.device,
            "PAUSE": "0.01",
            "PLAIN": "1",  # a loop of its own: nobody asks it to save
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        }


ON_GPU = Size(ballast_bytes=10 * GIB, steps=1200, piece=1 << 24, width=1024)


REHEARSED = Size(ballast_bytes=0, steps=1000, piece=1, width=1, device="cpu")
# Each loss follows from the ones before it; there is no card and no PyTorch in it.
REHEARSED_TRAIN = """
import os, random, time
losses = open(os.environ["LOSSES"], "a", buffering=1)
drawn, loss = random.Random(0), 1.0
for step in range(int(os.environ["STEPS"])):
    loss = 0.999 * loss + 0.001 * drawn.random()
    losses.write(f"{step} {loss.hex()}\\n")
    time.sleep(0.02)
losses.write("end\\n")
losses.close()
"""


# The training imports what its guests are given, and nothing else that we brought.
OURS = str(Path(gpunion.__file__).parent.parent)


class PreemptScene(Scene):
    size: Size = ON_GPU
    train: str = TRAIN
    urgent: str = URGENT

    def play(self) -> dict[str, Any]:
        self.root.mkdir(parents=True, exist_ok=True)
        self._leave_alone()
        return super().play()

    def _leave_alone(self) -> None:
        """The same training by itself, before anybody else is on the card."""
        began_s, losses = time.monotonic(), self.root / "alone"
        with (self.root / "alone.log").open("wb") as log:
            ended = subprocess.run(
                [sys.executable, "-c", self.train],
                env={**without_our_paths(), **self.size.environment(str(losses)), "PYTHONPATH": OURS},
                stdout=log,
                stderr=log,
                check=False,
                timeout=240,
            )
        if ended.returncode:
            raise RuntimeError(
                f"the training by itself failed: {(self.root / 'alone.log').read_text()[-2000:]}"
            )
        self.found["alone_took_s"] = round(time.monotonic() - began_s, 2)

    def _open(self, campus: LocalCampus) -> None:
        self.agreed = f"park = true\nallow_unsandboxed = {str(self.props.unsandboxed).lower()}\n"
        super()._open(campus)

    def _submit(self, campus: LocalCampus) -> str:
        program = f"import os\nos.chdir(os.environ['GPUNION_OUTPUT_DIR'])\n{self.train}"
        job = {
            "name": "training",
            "command": ["python3", "-c", program],
            "priority": "low",
            "environment": self.size.environment("losses"),
            "resources": {"gpus": 1, "memory": 16 * GIB if self.size.device == "cuda" else GIB},
            "checkpoint": {"max_interval_s": 3600.0},
        }
        return str(campus.client().submit(job)["job"]["id"])

    def _guest_is_seen(self, campus: LocalCampus, job: str) -> None:
        self._until("the driver's list names the guest", lambda: self._process_of(f"{job}-e1"))
        self._until("it has made some steps", lambda: self._steps(job) >= self.size.steps // 4)

    def _acts(self, campus: LocalCampus, job: str, idle_bytes: int) -> None:
        client, before_bytes = campus.client(), self.props.used_bytes()
        handed_in_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        urgent = client.submit(
            {
                "name": "urgent",
                "command": ["python3", "-c", self.urgent.format(computes_s=COMPUTES_S)],
                "priority": "high",
                "resources": {"gpus": 1, "cpus": 0.5, "memory": GIB // 2},
                "checkpoint": {"max_interval_s": 3600.0},
            }
        )["job"]["id"]
        first_s = float(
            self._until("the card works for it", lambda: self._line(client.logs(urgent)["text"], "FIRST "))
        )
        began_s = float(self._line(client.logs(urgent)["text"], "BEGAN ") or "nan")
        stood_at, while_bytes = self._steps(job), self.props.used_bytes()
        standing = client.job(job)["runs"][0]["parked_at"] is not None
        told = [line["sentence"] for line in client.why(job)["waits"]]
        time.sleep(1.0)
        still = self._steps(job) == stood_at
        (move,) = client.job(job)["migrations"]
        kept = self._losses(job)[0].open("rb")  # its directory goes when it has ended
        gone_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._until("the urgent job is over", lambda: client.job(urgent)["ended_at"])
        self._until("the other goes on", lambda: self._steps(job) > stood_at)
        back_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._until("it has ended", lambda: client.job(job)["ended_at"])
        ended = client.job(job)
        alone = self.root / "alone"
        with kept:
            losses = kept.read()
        self.found["preempt"] = {
            "ballast_bytes": self.size.ballast_bytes,
            "used_before_bytes": before_bytes,
            "used_while_it_stood_bytes": while_bytes,
            "idle_bytes": idle_bytes,
            "way": move["way"],
            "park_s": move["left_after_s"],
            "urgent_program_began_after_s": round(began_s - handed_in_s, 3),
            "first_cuda_operation_after_s": round(first_s - handed_in_s, 3),
            "stood_still": still and standing,
            "told_while_it_stood": told,
            "goes_on_after_s": round(back_s - gone_s - COMPUTES_S + 1.0, 3),
            "phase": ended["phase"],
            "epoch": ended["epoch"],
            "steps_redone": [one["steps_redone"] for one in ended["migrations"]],
            "losses": len(alone.read_text().splitlines()) - 1,
            "identical": alone.read_bytes() == losses,
            "story": [line["sentence"] for line in client.why(job).get("story", [])],
            "story_of_the_urgent": [line["sentence"] for line in client.why(urgent).get("story", [])],
        }

    def _steps(self, job: str) -> int:
        return sum(path.read_bytes().count(b"\n") for path in self._losses(job))

    def _losses(self, job: str) -> list[Path]:
        return list(Path(self.root / NODE).glob(f"guests/{job}-e*/output/losses"))


def verdicts(found: dict[str, Any]) -> dict[str, bool]:
    seen = found["preempt"]
    within_s = (seen["park_s"] or 0.0) + BAR_S
    return {
        "the_victim_was_parked": seen["way"] == "park" and seen["stood_still"],
        "first_cuda_operation_within_the_park_and_3_s": seen["first_cuda_operation_after_s"] <= within_s,
        "the_victim_went_on_as_the_same_run_with_nothing_redone": seen["epoch"] == 1
        and seen["steps_redone"] == [0]
        and seen["phase"] == "succeeded",
        "its_losses_are_those_of_an_uninterrupted_run": seen["identical"],
    }


class RehearsedPreemptScene(PreemptScene):
    size = REHEARSED
    train = REHEARSED_TRAIN
    urgent = REHEARSED_URGENT
