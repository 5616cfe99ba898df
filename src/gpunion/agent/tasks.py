"""Long blocking work beside the loop: a vault on a network file system may hang for as long as it likes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog

from gpunion.domain.ids import RunId
from gpunion.ports.runtime import RuntimeFault

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


log = structlog.get_logger()


class GuestTasks:
    def __init__(self, run_id: RunId) -> None:
        self._run_id = run_id
        self._tasks: set[asyncio.Task[Any]] = set()
        self.in_order = asyncio.Lock()  # small things happen to a guest in the order they were decided

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def in_turn(self, work: Coroutine[Any, Any, None]) -> None:
        async def next_one() -> None:
            async with self.in_order:
                try:
                    await work
                except RuntimeFault as fault:
                    log.warning("guest_not_reached", run=self._run_id, trouble=str(fault))

        self.begin(next_one())

    async def turns_done(self) -> None:
        await asyncio.sleep(0)  # what was just decided takes its place in the queue
        async with self.in_order:
            return

    async def others_done(self) -> None:
        """All but the one that waits for them."""
        mine = asyncio.current_task()
        while busy := [task for task in self._tasks if task is not mine]:
            await asyncio.wait(busy)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("hand_slipped", run=self._run_id, exc_info=task.exception())
