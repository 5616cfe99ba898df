"""Asks the coordinator which places for checkpoints there are, and tells it which this machine reaches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import structlog

from gpunion.agent.storage import Reach, Storage
from gpunion.agent.threads import in_own_thread
from gpunion.engine.agent_station import AgentStation
from gpunion.ports.coordinator_link import CoordinatorLink, LinkFault

# A new place, or one that is back, is of use within a minute; each look is a few small requests.
LOOK_EVERY_S = 60.0
NOT_CONNECTED_S = 2.0
# A file server that hangs does not answer either; the place counts as out of reach meanwhile.
LOOK_LIMIT_S = 45.0

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
        self.reach = Reach(reached=())
        self._seen: set[str] = set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                places = await self._link.fetch_places()
                await asyncio.to_thread(self._storage.learn, places)
                wait_s = LOOK_EVERY_S
            except LinkFault:
                wait_s = NOT_CONNECTED_S
            await self.look()
            await asyncio.sleep(wait_s)

    async def look(self) -> None:
        try:
            async with asyncio.timeout(LOOK_LIMIT_S):
                found = await in_own_thread(self._storage.reach)
        except TimeoutError:
            found = Reach(reached=(), troubles={"all": "a place does not answer"})
        if found.troubles != self.reach.troubles:
            for place, trouble in found.troubles.items():
                log.warning("place_not_reached", place=place, trouble=trouble)
        self.reach = found
        self._seen |= {*found.reached}
        away = tuple(sorted(self._seen - {*found.reached}))
        facts = replace(self._station.facts, places=found.reached, places_away=away)
        if facts != self._station.facts:
            self._station.change_facts(facts)
            self._greet_again()
            log.info("places_reached", places=found.reached, away=away)
