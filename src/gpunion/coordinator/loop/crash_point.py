"""For system tests only: dying at an exact commit.

GPUNION_CRASH_AT_COMMIT="3:before" kills the process right before its third commit reaches the store,
"3:after" right after it is durable and before anybody hears of it. SIGKILL: nothing is tidied up.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

VARIABLE = "GPUNION_CRASH_AT_COMMIT"


class CrashPoint:
    def __init__(self, environment: Mapping[str, str]) -> None:
        number, _, side = environment.get(VARIABLE, "").partition(":")
        if number and (not number.isdigit() or side not in ("before", "after")):
            raise ValueError(f'{VARIABLE} is a number and a side, like "3:before" or "3:after"')
        self._number = int(number or 0)
        self._side = side
        self._commits = 0

    def before_commit(self) -> None:
        self._commits += 1
        self._reached("before")

    def after_commit(self) -> None:
        self._reached("after")

    def _reached(self, side: str) -> None:
        if self._commits == self._number and side == self._side:
            os.kill(os.getpid(), signal.SIGKILL)
