"""What has arrived on one connection and waits to be looked at, in portions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gpunion.coordinator.requests.turns import Turns

PORTION_BYTES = 4096
# More is not taken off the wire before some of it was looked at, nor more than this at once.
HELD_BYTES = 16 * 1024


class Inlet:
    def __init__(
        self,
        turns: Turns,
        transport: asyncio.Transport,
        *,
        belongs_to: Callable[[], str],
        size_of_next: Callable[[bytearray], int],
        look_at: Callable[[bytes], None],
        is_full: Callable[[], bool],
    ) -> None:
        """`size_of_next`: how much of what waits may be looked at now. `is_full`: whether who reads wants no
        more off the wire for now; it says so to the transport itself."""
        self._turns = turns
        self._transport = transport
        self._belongs_to = belongs_to
        self._size_of_next = size_of_next
        self._look_at = look_at
        self._is_full = is_full
        self._waiting = bytearray()
        self._held = False
        if hasattr(
            transport, "max_size"
        ):  # of the event loop's own: a quarter of a megabyte for each connection
            transport.max_size = HELD_BYTES

    @property
    def belongs_to(self) -> str:
        return self._belongs_to()

    def came(self, data: bytes) -> None:
        self._waiting += data
        if len(self._waiting) > HELD_BYTES:
            self._held = True
            self._transport.pause_reading()
        self.look()

    def look(self) -> None:
        """Also when what kept it from being looked at is over."""
        if self._waiting:
            self._turns.wants(self)

    def read_some(self) -> bool:
        size = self._size_of_next(self._waiting)
        if size:
            portion = bytes(self._waiting[:size])
            del self._waiting[:size]
            self._look_at(portion)
        if self._held and len(self._waiting) <= HELD_BYTES:
            self._held = False
            if not self._is_full():
                self._transport.resume_reading()
        return bool(self._waiting) and size > 0

    def give_up(self) -> None:
        self._transport.abort()

    def take_rest(self) -> bytes:
        """What waits is somebody else's now."""
        rest = bytes(self._waiting)
        self._waiting.clear()
        self._held = False
        self._turns.gone(self)
        return rest

    def close(self) -> None:
        self.take_rest()
