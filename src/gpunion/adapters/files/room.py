"""Memory that a thread uses again, so that the system need not find and clear it for every block.

A fresh page costs more than all that is done with the bytes on it: on a virtual machine of two cores blocks
in memory of their own took twice the processor time (docs/measurements/checkpoint.md).
"""

from __future__ import annotations

import mmap
import threading
from contextlib import suppress

HUGE_PAGE_BYTES = 2 * 1024**2
# From here on a large page is cheaper than many small ones, though a part of it is never used.
LARGE_BYTES = HUGE_PAGE_BYTES // 4

_local = threading.local()


def room(use: str, size_bytes: int) -> memoryview:
    """Whatever was left there, of that size at least asked for. It is the thread's alone; who asks for the
    same `use` again gets the same memory. It goes with the thread."""
    held: dict[str, mmap.mmap] = _local.__dict__.setdefault("held", {})
    found = held.get(use)
    if found is None or len(found) < size_bytes:
        found = held[use] = _fresh(size_bytes)
    return memoryview(found)[:size_bytes]


def _fresh(size_bytes: int) -> mmap.mmap:
    unit_bytes = HUGE_PAGE_BYTES if size_bytes >= LARGE_BYTES else mmap.PAGESIZE
    units = -(-max(1, size_bytes) // unit_bytes)
    # Private: memory that could be shared gets no large pages.
    found = mmap.mmap(-1, units * unit_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size_bytes >= LARGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a system without them
            found.madvise(mmap.MADV_HUGEPAGE)
    return found
