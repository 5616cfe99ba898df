"""Anybody may ask which windows there are, so what that takes does not grow with how many ask."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from gpunion.coordinator.loop.latest import Latest
from gpunion.coordinator.routes.windows import windows
from gpunion.coordinator.services import Campus


def a_campus(asked: list[float]) -> Campus:
    def look(now_s: float) -> tuple[Any, ...]:
        asked.append(now_s)
        return ()

    engine = SimpleNamespace(policies=SimpleNamespace(windows=None), windows=look)
    clock = SimpleNamespace(now_s=lambda: 100.0)
    return cast(
        Campus, SimpleNamespace(windows=Latest(), station=SimpleNamespace(engine=engine), clock=clock)
    )


def test_bids_are_worked_out_once_for_all_who_ask_within_a_moment() -> None:
    asked: list[float] = []
    campus = a_campus(asked)

    async def many_ask() -> None:
        for _ in range(5):
            assert (await windows(campus, cast(Any, None))).windows == []

    asyncio.run(many_ask())
    assert asked == [100.0]
