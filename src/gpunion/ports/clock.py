"""What time it is, for everything that must be over at a certain moment.

One clock for the agent and for whatever enforces its limits: seconds since boot, counting suspended time.
Setting the machine's date moves no deadline; a laptop that slept finds its deadlines passed.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_s(self) -> float: ...


class BootClock:
    """CLOCK_BOOTTIME. The standard library is all it takes, so it needs no adapter of its own."""

    def now_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
