"""One time for everything the coordinator decides: wall time that neither jumps nor goes back.

It is the wall clock's at the start and the machine's own count of seconds from then on, so that somebody who
sets the clock ends no lease. After a restart it never begins before what was already committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def elapsed_s() -> float:
    """Counts through a suspended machine too: a laptop that slept an hour has let its leases run out."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    def __init__(
        self, wall: Callable[[], float] = time.time, elapsed: Callable[[], float] = elapsed_s
    ) -> None:
        self._elapsed = elapsed
        self._start_s = wall()
        self._began_s = elapsed()

    def now_s(self) -> float:
        return self._start_s + (self._elapsed() - self._began_s)

    def not_before(self, moment_s: float) -> None:
        """Goes on from `moment_s` where the clock is behind it."""
        self._start_s += max(0.0, moment_s - self.now_s())
