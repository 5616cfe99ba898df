"""Threads for what people do in guests: the loop's own stay free for the owner and for the lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_POOL = ThreadPoolExecutor(4, thread_name_prefix="gpunion-streams")


async def beside(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_POOL, work)
