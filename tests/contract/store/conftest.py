"""The contract runs on every store. A `place` is where coordinators meet: each store of it is another one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gpunion.adapters.memory_database import Disk, MemoryStore
from gpunion.adapters.sql.database import SqlStore
from gpunion.ports.database import Store

KINDS = ("memory", "sqlite")
LEAD_S = 30.0


class Place:
    def __init__(self, make: Callable[[], Store]) -> None:
        self._make = make
        self._open: list[tuple[Store, int]] = []

    def store(self) -> Store:
        return self._make()

    async def opened(self, now_s: float = 0.0) -> tuple[Store, int]:
        store = self.store()
        term = await store.open(holder="test", now_s=now_s, lead_s=LEAD_S)
        self._open.append((store, term))
        return store, term

    async def restarted(self, store: Store, term: int) -> tuple[Store, int]:
        """The same place after an orderly end."""
        await store.close(term=term)
        return await self.opened()

    async def shut(self) -> None:
        for store, term in self._open:
            await store.close(term=term)


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    disk = Disk()
    makers: dict[str, Callable[[], Store]] = {
        "memory": lambda: MemoryStore(disk),
        "sqlite": lambda: SqlStore(tmp_path / "gpunion.db"),
    }
    place = Place(makers[request.param])
    yield place
    await place.shut()
