"""How many requests of one sender are under way at a time; the others wait for their turn, unread.

Whoever has a turn and neither sends nor reads anything for a minute has no turn any more: a cable that was
cut in the middle of a request would else keep it for good.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from starlette.types import Message, Receive, Send

PAUSE_LIMIT_S = 60.0


@dataclass(slots=True)
class _Sender:
    places: asyncio.Semaphore
    here: int = 0  # with those who wait


class AtOnce:
    def __init__(self, most: int) -> None:
        self._most = most
        self._senders: dict[str, _Sender] = {}

    @asynccontextmanager
    async def one_of(self, name: str) -> AsyncIterator[None]:
        sender = self._senders.setdefault(name, _Sender(asyncio.Semaphore(self._most)))
        sender.here += 1
        try:
            async with sender.places:
                yield
        finally:
            sender.here -= 1
            if not sender.here:
                del self._senders[name]


class NotTaken(Exception):
    """Its sender is not there any more, or does as if."""


@contextmanager
def _within(limit_s: float, what: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise NotTaken(f"nothing was {what} for {limit_s:.0f} s") from error


def hurried(receive: Receive, send: Send, limit_s: float = PAUSE_LIMIT_S) -> tuple[Receive, Send]:
    """The same, with NotTaken where a body stops coming, or an answer is not taken."""
    whole = False

    async def receiving() -> Message:
        nonlocal whole
        if whole:
            return await receive()  # to learn that the sender is gone
        with _within(limit_s, "sent"):
            async with asyncio.timeout(limit_s):
                message = await receive()
        whole = not message.get("more_body", False)
        return message

    async def sending(message: Message) -> None:
        with _within(limit_s, "taken"):
            async with asyncio.timeout(limit_s):
                await send(message)

    return receiving, sending
