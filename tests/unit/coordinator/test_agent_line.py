"""An agent's connection: what comes in and what goes out end together."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from gpunion.coordinator.routes.for_nodes.agent import until_one_ends


class Broke(Exception):
    pass


async def breaks() -> None:
    raise Broke


async def test_a_line_that_breaks_in_both_directions_at_once_is_told_once_and_leaves_nothing_behind() -> None:
    left_behind: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: left_behind.append(context))
    with pytest.raises(Broke):
        await until_one_ends(breaks(), breaks())
    gc.collect()  # what nobody has heard is told when its task goes
    assert left_behind == []


async def test_when_one_direction_ends_the_other_does_too() -> None:
    ended = asyncio.Event()

    began = asyncio.Event()

    async def goes_on() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def breaks_later() -> None:
        await began.wait()
        raise Broke

    with pytest.raises(Broke):
        await until_one_ends(goes_on(), breaks_later())
    assert ended.is_set()


async def test_both_directions_end_with_whoever_serves_them() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def goes_on() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    serving = asyncio.create_task(until_one_ends(goes_on()))
    await began.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert ended.is_set()
