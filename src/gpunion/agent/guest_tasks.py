"""What is being done for or to one guest right now, as tasks: beside each other, or one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

from gpunion.domain.ids import RunId
from gpunion.ports.runtime import RuntimeFault

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
