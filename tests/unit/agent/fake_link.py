"""A coordinator, as an agent sees it, that says what a test tells it to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from gpunion.domain.protocol.frames import CoordinatorFrame, FromAgent
from gpunion.ports.coordinator_link import LinkFault
from gpunion.vault.locations import Place
from tests.trees import SmallTree


class FakeLink:
    """A coordinator that says what the test tells it to."""

    def __init__(self) -> None:
        self.trees: dict[str, bytes] = {}
        self.blocks: dict[str, bytes] = {}
        self.asked: list[list[str]] = []
        self.fetch_faults: list[LinkFault] = []
        self.cut_after: int | None = None  # the next stream of blocks ends after so many
        self.logs: dict[str, bytes] = {}
        self.whole_logs: list[str] = []  # runs of which all is told to be there
        self.log_fault: LinkFault | None = None
        self.refused: LinkFault | None = None
        self.connections = 0
        self.sent: list[FromAgent] = []
        self.places: tuple[Place, ...] = ()
        self.to_agent: asyncio.Queue[CoordinatorFrame | None] = asyncio.Queue()

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator[FakeLink]:
        self.connections += 1
        if self.refused is not None:
            raise self.refused
        yield self

    async def send(self, frame: FromAgent) -> None:
        self.sent.append(frame)

    async def frames(self) -> AsyncIterator[CoordinatorFrame]:
        while (frame := await self.to_agent.get()) is not None:
            yield frame

    def serve(self, tree: SmallTree) -> str:
        self.trees[tree.digest] = tree.listing
        self.blocks |= tree.blocks
        return tree.digest

    async def fetch_tree(self, digest: str) -> bytes:
        if self.fetch_faults:
            raise self.fetch_faults.pop(0)
        return self.trees[digest]

    async def fetch_blocks(self, names: Sequence[str]) -> AsyncIterator[tuple[str, bytes]]:
        self.asked.append(list(names))
        for count, name in enumerate(names):
            if count == self.cut_after:
                self.cut_after = None
                raise LinkFault("the cable was pulled", temporary=True)
            if name in self.blocks:
                yield name, self.blocks[name]

    async def fetch_places(self) -> tuple[Place, ...]:
        if self.refused is not None:
            raise self.refused
        return self.places

    async def push_log(self, run_id: str, offset: int, data: bytes, *, end: bool = False) -> int:
        if self.log_fault is not None:
            raise self.log_fault
        have = self.logs.get(run_id, b"")
        if offset <= len(have):
            self.logs[run_id] = have[:offset] + data if offset + len(data) > len(have) else have
        have = self.logs.get(run_id, b"")
        if end and offset + len(data) == len(have):
            self.whole_logs.append(run_id)
        return len(have)

    async def close(self) -> None:
        pass
