"""Who watches the decision log grow. A watcher that is too slow is let go: it can come back and catch up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from gpunion.ports.database import LoggedDecision

# At some hundred decisions a second this is a second's worth; more would only delay the news.
QUEUE_LIMIT = 512
WATCHERS_LIMIT = 256


class TooManyWatchers(Exception):
    """No more can be served; one has to go first."""


class Hub:
    def __init__(self) -> None:
        self._watchers: set[Watcher] = set()
        self._closed = False

    def publish(self, line: LoggedDecision) -> None:
        for watcher in self._watchers:
            watcher.tell(line)

    def close(self) -> None:
        """The coordinator ends; every stream ends with it."""
        self._closed = True
        for watcher in self._watchers:
            watcher.let_go()

    @contextmanager
    def watch(self) -> Iterator[Watcher]:
        if self._closed or len(self._watchers) >= WATCHERS_LIMIT:
            raise TooManyWatchers
        watcher = Watcher()
        self._watchers.add(watcher)
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)


class Watcher:
    def __init__(self) -> None:
        self._lines: asyncio.Queue[LoggedDecision | None] = asyncio.Queue()
        self._over = False

    def tell(self, line: LoggedDecision) -> None:
        if self._over:
            return
        if self._lines.qsize() >= QUEUE_LIMIT:
            self.let_go()
        else:
            self._lines.put_nowait(line)

    def let_go(self) -> None:
        self._over = True
        self._lines.put_nowait(None)

    async def next(self) -> LoggedDecision | None:
        """The next line, or None when there will be no more."""
        return await self._lines.get()
