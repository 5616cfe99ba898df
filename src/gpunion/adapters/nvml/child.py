"""The process that talks to the driver, so that a driver that hangs takes nobody else along.

One line in, one line out: `look` is answered with what is seen, as JSON. It ends with its input.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any

from gpunion.adapters.nvml.driver import Driver
from gpunion.adapters.nvml.opened import Openers, pids_are_ours

# Tests put a module of theirs in the place of NVIDIA's binding; nothing else sets this.
STAND_IN_VARIABLE = "GPUNION_TEST_NVML"
BINDING = "pynvml"
# A card that was put in, taken out or cut into slices is noticed by a library that starts over.
START_OVER_S = 30.0


class Watcher:
    def __init__(self, nvml: Any, *, trusts_pids: bool) -> None:
        self._nvml = nvml
        self._trusts_pids = trusts_pids
        self._openers = Openers()
        self._driver: Driver | None = None
        self._started_s = 0.0

    def answer(self) -> dict[str, Any]:
        now_s = time.monotonic()
        try:
            if self._driver is None or now_s - self._started_s > START_OVER_S:
                self._start_over(now_s)
            assert self._driver is not None
            self._openers.forget()
            return {"gpus": self._driver.look()}
        except self._nvml.NVMLError as error:
            self._driver = None
            return {"trouble": str(error)}

    def _start_over(self, now_s: float) -> None:
        if self._driver is not None:
            self._driver.close()
            self._driver = None
        self._driver = Driver(self._nvml, self._openers, trusts_pids=self._trusts_pids)
        self._started_s = now_s


def main() -> int:
    try:
        nvml = importlib.import_module(os.environ.get(STAND_IN_VARIABLE, BINDING))
    except ImportError as error:
        print(json.dumps({"trouble": f"NVIDIA's library for Python is not installed: {error}"}), flush=True)
        return 1
    watcher = Watcher(nvml, trusts_pids=STAND_IN_VARIABLE in os.environ or pids_are_ours())
    for line in sys.stdin:
        if line.strip() == "look":
            print(json.dumps(watcher.answer()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
