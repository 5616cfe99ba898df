"""The demo's job: the training example, once through the campus and once alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gpunion.sdk.client import Client

SCRIPT = "train_numpy.py"
STEPS, SEED, STEP_S = 500, 7, 0.06
CHECKPOINT_EVERY_S = 2.0
REFERENCE_LIMIT_S = 300.0


def script_path() -> Path:
    """Beside this module where the package was installed, in `examples/` in a checkout."""
    installed = Path(__file__).with_name(SCRIPT)
    return installed if installed.exists() else Path(__file__).parents[4] / "examples" / SCRIPT


def submit(client: Client) -> str:
    digest = client.put_tree({SCRIPT: script_path().read_bytes()})
    answer = client.submit(
        {
            "name": "train",
            "command": ["python", SCRIPT, *_arguments(STEP_S)],
            "resources": {"gpus": 1, "vram": "16GiB", "cpus": 0.5, "memory": "512MiB"},
            "bundle": digest,
            "lab": "Students",
            "checkpoint": {"max_interval_s": CHECKPOINT_EVERY_S},
            "expected_s": STEPS * STEP_S,
        }
    )
    return str(answer["job"]["id"])


def reference_run(root: Path) -> Path:
    """The same seed, never interrupted, as fast as it goes. Returns where its output lies."""
    output = root / "reference"
    output.mkdir(exist_ok=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUNION_")}
    subprocess.run(
        [sys.executable, str(script_path()), *_arguments(0.0)],
        env={**environment, "GPUNION_OUTPUT_DIR": str(output)},
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=REFERENCE_LIMIT_S,
    )
    return output


def _arguments(step_s: float) -> list[str]:
    return ["--steps", str(STEPS), "--seed", str(SEED), "--step-seconds", str(step_s)]
