"""Asks the coordinator which places for checkpoints there are, and tells it which this machine reaches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import structlog

from gpunion.agent.tasks import in_own_thread
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.ports.coordinator_link import CoordinatorLink, LinkFault
from gpunion.vault.locations import CAMPUS
from gpunion.vault.manifest import VaultFault, VaultFull, VaultOutOfReach
from gpunion.vault.opener import Storage

# A new place, or one that is back, is of use within a minute; each look is a few small requests.
LOOK_EVERY_S = 60.0
LOOK_AGAIN_S = 10.0  # where one is not reached: it may be a machine that is just starting
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
        station: PureAgent,
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
                connected = await self._learn()
                await self.look(connected=connected)
                if self.troubles:
                    wait_s = LOOK_AGAIN_S
                if not connected:
                    wait_s = NOT_CONNECTED_S
            except Exception:  # whatever is wrong with places, the agent lives on for its guests
                log.exception("places_not_looked_at")
            await asyncio.sleep(wait_s)

    async def _learn(self) -> bool:
        """Whether the coordinator answered."""
        try:
            places = await self._link.fetch_places()
        except LinkFault as fault:
            if fault.temporary:
                return False
            self._storage.learn_nothing()
            return True
        await asyncio.to_thread(self._storage.learn, places)
        return True

    async def look(self, *, connected: bool = True) -> None:
        names = self._storage.doubtful(connected=connected)
        answers = dict(zip(names, await asyncio.gather(*map(self._ask, names)), strict=True))
        # It is as it was: the coordinator keeps it, and is away or too busy to say.
        if answers.get(CAMPUS) is None:
            answers[CAMPUS] = self.troubles.get(CAMPUS, "")
        troubles = {name: trouble for name, trouble in answers.items() if trouble}
        for place, trouble in troubles.items():
            if self.troubles.get(place) != trouble:
                log.warning("place_not_reached", place=place, trouble=trouble)
        self.troubles = troubles
        self._tell(answers.keys() - troubles.keys())

    async def _ask(self, name: str) -> str | None:
        """Why not, or nothing; None where that is not known. One that hangs keeps nobody from asking the
        others, and is not asked twice."""
        unknown = self._storage.is_behind_the_coordinator(name)
        task = self._asking.get(name)
        if task is None:
            task = self._asking[name] = asyncio.create_task(in_own_thread(lambda: self._storage.ask(name)))
        await asyncio.wait([task], timeout=LOOK_LIMIT_S)
        if not task.done():
            return None if unknown else f"it has not answered for {LOOK_LIMIT_S:.0f} s"
        del self._asking[name]
        trouble = task.exception()
        if unknown and isinstance(trouble, VaultOutOfReach):
            return None
        if isinstance(trouble, VaultFull):
            self._seen.add(name)  # it is there: a job may begin in its next place, and get this one later
        if trouble is None or isinstance(trouble, VaultFault):
            return "" if trouble is None else str(trouble)
        log.error("place_not_asked", place=name, exc_info=trouble)
        return f"asking it failed: {type(trouble).__name__}: {trouble}"

    def _tell(self, reached: set[str]) -> None:
        self._seen |= reached
        facts = replace(
            self._station.facts,
            places=tuple(sorted(reached - {CAMPUS})),
            places_away=tuple(sorted(self._seen - reached)),
            vault_trouble=self.troubles.get(CAMPUS, ""),
        )
        if facts != self._station.facts:
            self._station.change_facts(facts)
            self._greet_again()
            log.info("places_reached", places=facts.places, away=facts.places_away)
