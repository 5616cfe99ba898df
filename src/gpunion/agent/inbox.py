"""What waits to be decided: the owner's word first, then what happened here, then the coordinator's."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from gpunion.domain.protocol.commit import AgentCommit
from gpunion.domain.protocol.events import AgentEvent
from gpunion.domain.protocol.frames import CoordinatorFrame, Hello


class Urgency(IntEnum):
    OWNER = 0
    MACHINE = 1
    COORDINATOR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What became of an event. `forgettable`: done, but not on disk, so a restart forgets it."""

    commit: AgentCommit
    forgettable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    event: AgentEvent
    answer: asyncio.Future[Answer] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """A connection is open; `hello` gets what to say first."""

    hello: asyncio.Future[Hello]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    frame: CoordinatorFrame
    taken: asyncio.Future[None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disconnected:
    in_vain: bool = False  # nobody had answered


Item: TypeAlias = Happened | Connected | Arrived | Disconnected


@dataclass(order=True, slots=True)
class _Entry:
    urgency: Urgency
    number: int
    item: Item = field(compare=False)


class Inbox:
    """Unbounded by itself, but every writer waits for an answer or speaks once per guest and effect."""

    def __init__(self) -> None:
        self._entries: asyncio.PriorityQueue[_Entry] = asyncio.PriorityQueue()
        self._count = 0

    def put(self, urgency: Urgency, item: Item) -> None:
        self._count += 1
        self._entries.put_nowait(_Entry(urgency, self._count, item))

    async def get(self, patience_s: float) -> Item | None:
        try:
            async with asyncio.timeout(patience_s):
                return (await self._entries.get()).item
        except TimeoutError:
            return None
