"""How much is worth doing at once here."""

from __future__ import annotations

import os

# More threads only wait for each other: what Python does between two blocks it does for one at a time.
THREADS_MAX = 8


def cores() -> int:
    """Those that this process may use: a container or `taskset` may leave it fewer than the machine has."""
    return len(os.sched_getaffinity(0))


def threads(per_core: int = 1, more: int = 0) -> int:
    return min(THREADS_MAX, per_core * cores() + more)
