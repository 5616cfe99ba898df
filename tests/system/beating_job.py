"""A job for the system tests: counts steps, and prints a beat with its epoch and the machine's clock at each.

The clock is the machine's, not a process's, so that two incarnations living at once would show.
"""

import json
import os
import sys
import time
from pathlib import Path

from gpunion.sdk.job import training

STEPS, STEP_S = int(sys.argv[1]), float(sys.argv[2])

count = {"value": 0}


def save(directory: Path) -> None:
    (directory / "count.json").write_text(json.dumps(count))


def load(directory: Path) -> None:
    count.update(json.loads((directory / "count.json").read_text()))


run = training.Training(total_steps=STEPS, save=save, load=load)
for step in run.steps():
    count["value"] += 1
    assert count["value"] == step + 1, f"step {step} but {count['value']} were counted"
    print(
        f"beat {os.environ['GPUNION_RUN_EPOCH']} {time.clock_gettime(time.CLOCK_BOOTTIME)} {step}", flush=True
    )
    time.sleep(STEP_S)

Path(os.environ["GPUNION_OUTPUT_DIR"], "count.json").write_text(json.dumps(count))
