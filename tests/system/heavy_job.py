"""A job for the system tests whose state is large and hardly changes.

Its last save waits for a word, a file that the test makes; it ends soon after it has been brought back.
"""

import json
import os
import sys
import time
from pathlib import Path

from gpunion.sdk.job import training

BLOCKS = int(sys.argv[1])
BLOCK_BYTES = 4 * 1024**2

count = {"value": 0}
control = Path(os.environ["GPUNION_CONTROL_DIR"])


def save(directory: Path) -> None:
    with open(directory / "weights", "wb") as file:
        for number in range(BLOCKS):
            file.write(bytes([number]) * BLOCK_BYTES)
    (directory / "count.json").write_text(json.dumps(count))
    while (control / "notice.json").exists() and not (control / "go").exists():
        time.sleep(0.02)


def load(directory: Path) -> None:
    with open(directory / "weights", "rb") as file:
        for number in range(BLOCKS):
            assert file.read(BLOCK_BYTES) == bytes([number]) * BLOCK_BYTES, f"block {number} is another"
    count.update(json.loads((directory / "count.json").read_text()))


run = training.Training(total_steps=1_000_000, save=save, load=load)
for _ in run.steps():
    count["value"] += 1
    time.sleep(0.05)
    if os.environ["GPUNION_RESUME"] == "1":
        break

Path(os.environ["GPUNION_OUTPUT_DIR"], "count.json").write_text(json.dumps(count))
