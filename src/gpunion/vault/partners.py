"""A thread beside each thread that asks something of a place, so that who asks can stop waiting.

A call into a file system that hangs cannot be taken back: the thread that made it is stuck for as long as the
server is. So another one makes it, always the same for the same asker, since memory is lent by threads
(`Vault.lend_block`). One that is stuck is left alone; nobody waits for it when the process ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")

_local = threading.local()


class Partner:
    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        threading.Thread(target=_do, args=(self._work,), daemon=True, name="gpunion-partner").start()

    def begin(self, work: Callable[[], T]) -> Future[T]:
        answer: Future[T] = Future()

        def run() -> None:
            try:
                result = work()
            except BaseException as error:
                answer.set_exception(error)
            else:
                answer.set_result(result)

        self._work.put(run)
        return answer

    def __del__(self) -> None:
        """Its asker has ended, or has left it alone."""
        self._work.put(None)


def partner() -> Partner:
    """Of the thread that asks."""
    found: Partner | None = getattr(_local, "partner", None)
    if found is None:
        found = _local.partner = Partner()
    return found


def leave_partner() -> None:
    """It is stuck: the next call gets another."""
    _local.partner = None


def _do(queue: SimpleQueue[Callable[[], None] | None]) -> None:
    while (work := queue.get()) is not None:
        work()
        del work  # and what it holds, such as a block
