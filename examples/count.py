"""The smallest job that survives being moved: it counts, and its count is its state.

python examples/count.py            # anywhere
gpunion submit -- python count.py   # on somebody else's machine
"""

import time
from pathlib import Path

from gpunion.sdk.job import training

total = 0


def save(directory: Path) -> None:
    (directory / "total.txt").write_text(str(total))


def load(directory: Path) -> None:
    global total
    total = int((directory / "total.txt").read_text())


for step in training.Training(total_steps=100, save=save, load=load).steps():
    total += step
    print(f"step {step}: total {total}", flush=True)
    time.sleep(0.1)
