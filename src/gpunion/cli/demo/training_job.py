"""The demo's job: the training example, once through the campus and once alone."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpunion
from gpunion.sdk.client import Client

SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
SCRIPT = "train_numpy.py"
STEP_S = 0.06
CHECKPOINT_EVERY_S = 2.0
URGENT_S = 2.0
REFERENCE_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    name: str
    steps: int
    seed: int

    def arguments(self, step_s: float) -> list[str]:
        return ["--steps", str(self.steps), "--seed", str(self.seed), "--step-seconds", str(step_s)]


def script_path() -> Path:
    """Beside this module, so that every wheel has it; `examples/` points here."""
    return Path(__file__).with_name(SCRIPT)


def submit(client: Client, training: Training, **asked: Any) -> str:
    digest = client.put_tree({SCRIPT: script_path().read_bytes()})
    answer = client.submit(
        {
            "name": training.name,
            "command": ["python", SCRIPT, *training.arguments(STEP_S)],
            "resources": {"gpus": 1, "vram": "16GiB", "cpus": 0.5, "memory": "512MiB"},
            "bundle": digest,
            "lab": "Students",
            "checkpoint": {"max_interval_s": CHECKPOINT_EVERY_S},
            "expected_s": training.steps * STEP_S,
            **asked,
        }
    )
    return str(answer["job"]["id"])


def submit_urgent(client: Client) -> str:
    answer = client.submit(
        {
            "name": "urgent",
            "command": ["python", "-c", f"import time; time.sleep({URGENT_S})"],
            "priority": "high",
            "resources": {"gpus": 1, "models": ["A100"], "cpus": 0.5, "memory": "64MiB"},
            "expected_s": URGENT_S,
        }
    )
    return str(answer["job"]["id"])


def reference_run(root: Path, training: Training) -> Path:
    """The same seed, never interrupted, as fast as it goes. Returns where its output lies."""
    output = root / "reference" / training.name
    output.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [sys.executable, str(script_path()), *training.arguments(0.0)],
        env={**guest_environment(root), "GPUNION_OUTPUT_DIR": str(output)},
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=REFERENCE_LIMIT_S,
    )
    return output


def guest_environment(home: Path) -> dict[str, str]:
    """As a guest of one CPU has it, and nothing of this shell: OPENBLAS_CORETYPE makes numpy add up in
    another order, so may another number of threads, and the last bits differ."""
    return {
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "PATH": os.pathsep.join(dict.fromkeys((f"{sys.prefix}/bin", f"{sys.base_prefix}/bin", *SYSTEM_PATH))),
        "PYTHONPATH": str(Path(gpunion.__file__).parents[1]),
        "HOME": str(home),
        "TMPDIR": str(home),
    }
