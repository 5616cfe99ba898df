"""Asks the coordinator which places for checkpoints there are, and tells it which this machine reaches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import structlog

from gpunion.agent.storage import Storage
from gpunion.agent.threads import in_own_thread
from gpunion.engine.agent_station import AgentStation
from gpunion.ports.coordinator_link import CoordinatorLink, LinkFault
from gpunion.ports.vault import VaultFault

# A new place, or one that is back, is of use within a minute; each look is a few small requests.
LOOK_EVERY_S = 60.0
NOT_CONNECTED_S = 2.0
# A file server that hangs does not answer either; the place counts as out of reach meanwhile.
LOOK_LIMIT_S = 20.0

log = structlog.get_logger()


class StorageWatch:
    def __init__(
        self,
        *,
        storage: Storage,
        link: CoordinatorLink,
        station: AgentStation,
        greet_again: Callable[[], None],
    ) -> None:
        self._storage = storage
        self._link = link
        self._station = station
        self._greet_again = greet_again
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._seen: set[str] = set()
        self.troubles: dict[str, str] = {}  # of places that are not reached, in words for the owner

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            wait_s = LOOK_EVERY_S
            try:
                places = await self._link.fetch_places()
                await asyncio.to_thread(self._storage.learn, places)
            except LinkFault as fault:
                wait_s = NOT_CONNECTED_S if fault.temporary else LOOK_EVERY_S
            await self.look()
            await asyncio.sleep(wait_s)

    async def look(self) -> None:
        names = self._storage.named()
        answers = await asyncio.gather(*(self._ask(name) for name in names))
        troubles = {name: trouble for name, trouble in zip(names, answers, strict=True) if trouble}
        for place, trouble in troubles.items():
            if self.troubles.get(place) != trouble:
                log.warning("place_not_reached", place=place, trouble=trouble)
        self.troubles = troubles
        self._tell(tuple(name for name in names if name not in troubles))

    async def _ask(self, name: str) -> str:
        """Why not, or nothing. One that hangs keeps nobody from asking the others, and is not asked twice."""
        task = self._asking.get(name)
        if task is None:
            task = self._asking[name] = asyncio.create_task(in_own_thread(lambda: self._storage.ask(name)))
        await asyncio.wait([task], timeout=LOOK_LIMIT_S)
        if not task.done():
            return f"it has not answered for {LOOK_LIMIT_S:.0f} s"
        del self._asking[name]
        try:
            task.result()
        except VaultFault as fault:
            return str(fault)
        return ""

    def _tell(self, reached: tuple[str, ...]) -> None:
        self._seen |= {*reached}
        away = tuple(sorted(self._seen - {*reached}))
        facts = replace(self._station.facts, places=reached, places_away=away)
        if facts != self._station.facts:
            self._station.change_facts(facts)
            self._greet_again()
            log.info("places_reached", places=reached, away=away)
