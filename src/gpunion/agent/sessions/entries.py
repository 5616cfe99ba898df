"""Processes that are sent into guests for somebody: so many at a time, whatever guests and their users do."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator

from gpunion.tunnel.streams import StreamRefused

# Each is a process of the agent's on the owner's machine for as long as the shell is open.
SHELLS_OF_A_GUEST_MAX, SHELLS_MAX = 16, 64
# On their way in. A port where nobody answers keeps one for ten seconds; a page asks for six at a time.
ENTERING_OF_A_GUEST_MAX, ENTERING_MAX = 4, 12


class Entries:
    def __init__(self) -> None:
        self._shells: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._turn = asyncio.Semaphore(ENTERING_MAX)

    @contextlib.contextmanager
    def shell(self, run_id: str) -> Iterator[None]:
        if self._shells[run_id] >= SHELLS_OF_A_GUEST_MAX:
            raise StreamRefused(f"{SHELLS_OF_A_GUEST_MAX} terminals are open in it already")
        if self._shells.total() >= SHELLS_MAX:
            raise StreamRefused(f"{SHELLS_MAX} terminals are open on its machine already")
        self._shells[run_id] += 1
        try:
            yield
        finally:
            self._shells[run_id] -= 1
            if not self._shells[run_id]:
                del self._shells[run_id]

    @contextlib.asynccontextmanager
    async def entering(self, run_id: str) -> AsyncIterator[None]:
        """Waits for its turn: first behind others of its own guest, so that one guest delays no other."""
        turns = self._turns.setdefault(run_id, asyncio.Semaphore(ENTERING_OF_A_GUEST_MAX))
        self._waiting[run_id] += 1
        try:
            async with turns, self._turn:
                yield
        finally:
            self._waiting[run_id] -= 1
            if not self._waiting[run_id]:
                del self._waiting[run_id], self._turns[run_id]
