"""A member of a gang for the system tests: it counts steps, and ends some steps after it was resumed.

Each member keeps a count of its own: one that is restored from another's step or state shows.
"""

import json
import os
import sys
import time
from pathlib import Path

from gpunion.sdk.job import gang, training

STEPS_AFTERWARDS, STEP_S = int(sys.argv[1]), float(sys.argv[2])
# Far beyond what any machine does while a test runs.
STEPS = 10_000_000

count = {"rank": gang.rank(), "value": 0}


def save(directory: Path) -> None:
    spoils = "spoil-the-last-save" in sys.argv and gang.rank() == 1 and os.environ["GPUNION_RESUME"] == "0"
    request = Path(os.environ["GPUNION_CONTROL_DIR"]) / "request.json"
    last = spoils and json.loads(request.read_text())["final"]
    (directory / "count.json").write_text("garbage" if last else json.dumps(count))


def load(directory: Path) -> None:
    count.update(json.loads((directory / "count.json").read_text()))


run = training.Training(total_steps=STEPS, save=save, load=load)
for done, step in enumerate(run.steps()):
    assert count == {"rank": gang.rank(), "value": step}, f"step {step} of {gang.rank()}: {count}"
    count["value"] += 1
    epoch, clock_s = os.environ["GPUNION_RUN_EPOCH"], time.clock_gettime(time.CLOCK_BOOTTIME)
    print(f"beat {epoch} {clock_s} {step}", flush=True)
    if os.environ["GPUNION_RESUME"] == "1" and done == STEPS_AFTERWARDS:
        break
    time.sleep(STEP_S)
