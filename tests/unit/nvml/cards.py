"""Cards for the fake driver, and the file they lie in."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

STATE_VARIABLE = "GPUNION_TEST_NVML_STATE"
GIB = 1024**3


def a_card(number: int = 0, **changes: Any) -> dict[str, Any]:
    card = {
        "uuid": f"GPU-{number}",
        "model": "NVIDIA H200",
        "minor": number,
        "memory_bytes": 140 * GIB,
        "used_bytes": GIB,
        "utilisation": 40,
        "capability": [9, 0],
        "temperature": 55,
        "milliwatts": 300_500,
        "ecc": 0,
        "processes": [],
        "xids": [],
        "slices": [],
    }
    return {**card, **changes}


class FakeDriver:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.says(gpus=[a_card()])

    def says(self, **state: Any) -> None:
        unfinished = self._path.with_suffix(".new")
        unfinished.write_text(json.dumps(state), encoding="utf-8")
        os.rename(unfinished, self._path)
