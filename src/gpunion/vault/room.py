"""Memory that threads use again, so that the system need not find and clear it for every block.

A fresh page costs more than all that is done with the bytes on it: on a virtual machine of two cores blocks
in memory of their own took twice the processor time (docs/measurements/checkpoint.md).
"""

from __future__ import annotations

import mmap
import threading
from contextlib import suppress

from gpunion.vault.cores import threads

HUGE_PAGE_BYTES = 2 * 1024**2
# From here on a large page is cheaper than many small ones, though a part of it is never used.
LARGE_BYTES = HUGE_PAGE_BYTES // 4
# What threads leave behind for the next, some 20 MB each; the system may take it back when it needs it.
IDLE_MAX = threads(per_core=2)
# For one large write the system looks for large pieces of memory, which on a virtual machine are those that
# its host has yet to give: restores took four times as long.
WRITE_BYTES = 256 * 1024

_local = threading.local()
_idle: list[dict[str, mmap.mmap]] = []


def room(use: str, size_bytes: int) -> memoryview:
    """Whatever was left there, as many bytes as are asked for. It is the thread's alone; who asks for the
    same `use` again gets the same memory."""
    held: _Held | None = getattr(_local, "held", None)
    if held is None:
        held = _local.held = _Held()
    found = held.by_use.get(use)
    if found is None or len(found) < size_bytes:
        found = held.by_use[use] = _fresh(size_bytes)
    return memoryview(found)[:size_bytes]


def leave_room() -> None:
    """To whoever still reads what lies in this thread's: nobody uses it again."""
    held: _Held | None = getattr(_local, "held", None)
    if held is not None:
        held.by_use = {}


class _Held:
    """Lives as long as its thread."""

    def __init__(self) -> None:
        try:
            self.by_use = _idle.pop()
        except IndexError:
            self.by_use = {}

    def __del__(self) -> None:
        if len(_idle) >= IDLE_MAX:
            return
        for found in self.by_use.values():
            with suppress(OSError, AttributeError):  # an old system
                found.madvise(mmap.MADV_FREE)
        _idle.append(self.by_use)


def _fresh(size_bytes: int) -> mmap.mmap:
    unit_bytes = HUGE_PAGE_BYTES if size_bytes >= LARGE_BYTES else mmap.PAGESIZE
    units = -(-max(1, size_bytes) // unit_bytes)
    # Private: memory that could be shared gets no large pages.
    found = mmap.mmap(-1, units * unit_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size_bytes >= LARGE_BYTES:
        with suppress(OSError, AttributeError):  # a system without them
            found.madvise(mmap.MADV_HUGEPAGE)
    return found
