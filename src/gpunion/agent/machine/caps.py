"""The owner's caps as the agent's hands keep them: what a guest may put on the disk, how fast it is sent."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Protocol

from gpunion.domain.nodes.terms import OwnersTerms

# Longer sleeps would make a cancelled upload linger.
STEP_S = 0.2


class Stoppable(Protocol):
    def __call__(self) -> bool: ...

    def wait(self, seconds: float) -> None: ...


class Caps:
    """Changed from the loop, kept to by the threads that ship."""

    def __init__(self) -> None:
        self.disk_bytes = 0  # of each guest; 0: no cap
        self._network_bps: float | None = None
        self._lock = threading.Lock()
        self._wire_free_s = 0.0  # when all that was let through so far is through at the capped rate

    def take(self, terms: OwnersTerms) -> None:
        self.disk_bytes = terms.house.disk_bytes or 0
        self._network_bps = terms.terms.network_bps

    async def wait(self, sent_bytes: int) -> None:
        """The same for the loop, which may not sleep; together with what is shipped."""
        until_s = self._reserve(sent_bytes)
        while until_s is not None and self._network_bps is not None:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return
            await asyncio.sleep(min(left_s, STEP_S))

    def pace(self, sent_bytes: int, cancelled: Stoppable) -> None:
        """Waits until that much may follow, all shipments together. A change of the cap counts at once."""
        until_s = self._reserve(sent_bytes)
        while until_s is not None and self._network_bps is not None and not cancelled():
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return
            cancelled.wait(min(left_s, STEP_S))

    def _reserve(self, sent_bytes: int) -> float | None:
        """When that much is through at the capped rate."""
        with self._lock:
            rate_bps = self._network_bps
            if rate_bps is None:
                return None
            begin_s = max(self._wire_free_s, time.monotonic())
            self._wire_free_s = until_s = begin_s + 8 * sent_bytes / rate_bps
        return until_s


def both(first: Callable[[int], None], caps: Caps, cancelled: Stoppable) -> Callable[[int], None]:
    """The rate that was granted to one shipment, and the owner's cap on all of them."""

    def pace(sent_bytes: int) -> None:
        first(sent_bytes)
        caps.pace(sent_bytes, cancelled)

    return pace
