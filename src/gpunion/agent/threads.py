"""Long blocking work beside the loop: a vault on a network file system may hang for as long as it likes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_own_thread(work: Callable[[], T]) -> T:
    """Like asyncio.to_thread, but in a thread of its own that nobody waits for when the process ends.

    The shared pool stays free for what the owner needs (ending guests, the agent's memory), even when every
    vault hangs. When the caller is cancelled the work goes on; give it a flag to look at.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result: T | None = None
        trouble: BaseException | None = None
        try:
            result = work()
        except BaseException as error:
            trouble = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(finish, result, trouble)

    threading.Thread(target=run, daemon=True, name="gpunion-work").start()
    return await done
