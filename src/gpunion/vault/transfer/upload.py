"""Blocks on their way into a vault, several at a time, in memory no more than that."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from blake3 import blake3

from gpunion.vault.manifest import BLOCK_SIZE_BYTES, ShipCancelled, Vault
from gpunion.vault.transfer.walk import read_exactly

Names = Callable[[], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Sent:
    name: str
    size_bytes: int
    stored_bytes: int


@dataclass
class Upload:
    """A context: leaving it waits for everything, or after trouble for what has begun."""

    vault: Vault
    pool: Executor
    under_way_max: int
    pace: Callable[[int], None]
    cancelled: Callable[[], bool]
    done: Callable[[int], None] = lambda size_bytes: None
    stored_bytes: int = 0
    _under_way: deque[tuple[Future[_Sent], int | None]] = field(default_factory=deque)
    _ahead: list[Future[bool]] = field(default_factory=list)
    _claimed: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            while kind is None and self._under_way:
                self._settle()
        finally:
            self._abandon()

    def small(self, data: bytes) -> Names:
        found = [""]
        self._begin(lambda: self._put(data, found, 0))
        return lambda: tuple(found)

    def ahead(self, work: Callable[[], bool]) -> Future[bool]:
        """Something to be done before a file is read, beside what is under way."""
        future = self.pool.submit(work)
        self._ahead.append(future)
        return future

    def file(self, descriptor: int, size_bytes: int, after: Future[bool] | None = None) -> Names:
        """Closes the descriptor when its last block is read. Nothing is read before `after` is done: that was
        begun earlier, so whoever waits for it keeps nobody from doing it."""
        offsets = range(0, size_bytes, BLOCK_SIZE_BYTES)
        found = [""] * len(offsets)  # not the futures: of many small files those took most of the memory

        def sender(index: int, offset: int) -> Callable[[], _Sent]:
            wanted_bytes = min(BLOCK_SIZE_BYTES, size_bytes - offset)

            def send() -> _Sent:
                if after is not None:
                    after.result()
                return self._put(read_exactly(descriptor, offset, wanted_bytes), found, index)

            return send

        last: Future[_Sent] | None = None
        try:
            for index, offset in enumerate(offsets):
                last = self._begin(sender(index, offset))
        except BaseException:
            self._under_way.append((Future(), descriptor))
            raise
        if last is not None:
            self._under_way[-1] = (last, descriptor)
        else:
            wait(() if after is None else (after,))
            os.close(descriptor)
        return lambda: tuple(found)

    def _begin(self, send: Callable[[], _Sent]) -> Future[_Sent]:
        while len(self._under_way) >= self.under_way_max:
            self._settle()
        if self.cancelled():
            raise ShipCancelled("the checkpoint is no longer wanted")
        future = self.pool.submit(send)
        self._under_way.append((future, None))
        return future

    def _put(self, data: bytes | memoryview, found: list[str], index: int) -> _Sent:
        name = found[index] = blake3(data).hexdigest()
        with self._lock:
            first = name not in self._claimed
            self._claimed.add(name)
        # The seal finds out if the one who came first did not succeed.
        return _Sent(name, len(data), self.vault.put(name, data, named=True) if first else 0)

    def _settle(self) -> None:
        future, descriptor = self._under_way.popleft()
        try:
            sent = future.result()
        finally:
            if descriptor is not None:
                os.close(descriptor)
        self.stored_bytes += sent.stored_bytes
        self.done(sent.size_bytes)
        if sent.stored_bytes:
            self.pace(sent.stored_bytes)

    def _abandon(self) -> None:
        """What has begun ends by itself; what has not, never does. Only then may a descriptor be closed."""
        for future, _ in self._under_way:
            future.cancel()
        wait([future for future in self._ahead if not future.cancel()])
        for future, descriptor in self._under_way:
            if not future.cancelled():
                future.exception()
            if descriptor is not None:
                os.close(descriptor)
        self._under_way.clear()
