"""A request that is refused before its body is looked at: the rest of it is let pass, unread.

Most clients read an answer only when all they had to say is sent, so whoever is turned away gets a little
time for that. Nothing of it is taken apart.
"""

from __future__ import annotations

import asyncio

# How a body ends that does not say its length beforehand.
LAST_CHUNK = b"0\r\n\r\n"
PASSED_MAX_BYTES = 64 * 1024**2


class TurnedAway:
    def __init__(self, said_bytes: int | None) -> None:
        """None: it comes in chunks."""
        self._left_bytes = PASSED_MAX_BYTES if said_bytes is None else min(said_bytes, PASSED_MAX_BYTES)
        self._in_chunks = said_bytes is None
        self._end = b""
        self._over = asyncio.Event()
        self.passes(b"")

    def passes(self, data: bytes) -> None:
        self._left_bytes -= len(data)
        self._end = (self._end + data[-len(LAST_CHUNK) :])[-len(LAST_CHUNK) :]
        if self._left_bytes <= 0 or (self._in_chunks and self._end == LAST_CHUNK):
            self._over.set()

    def gone(self) -> None:
        self._over.set()

    async def over(self) -> None:
        await self._over.wait()
