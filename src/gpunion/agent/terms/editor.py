"""Where the owner's terms are shown and changed while the agent runs. A change counts at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from gpunion.agent.loop import AgentLoop
from gpunion.agent.machine.caps import Caps
from gpunion.agent.tasks import in_own_thread
from gpunion.agent.terms.file import KEYS, TermsTrouble, differences, shown_value, written
from gpunion.agent.terms.in_force import TermsKeeper
from gpunion.agent.terms.presence import Signs
from gpunion.domain.nodes.terms import OwnersTerms
from gpunion.domain.protocol.events import OwnerChangedTerms

log = structlog.get_logger()


def unparkable(why: str) -> str:
    return f"park: no guest can be parked here ({why}); guests are saved and moved instead"


@dataclass(kw_only=True)
class TermsDesk:
    keeper: TermsKeeper
    loop: AgentLoop
    in_force: Callable[[], Awaitable[None]]
    greet_again: Callable[[], None]  # what the coordinator must know before it counts
    caps: Caps
    gpus_are_watched: bool = False
    unenforced: tuple[str, ...] = ()  # limits that the runtime holds nobody to
    why_no_park: Callable[[], str] = lambda: ""  # why no guest can be parked here. Blocks for seconds
    allow_places: Callable[[tuple[str, ...]], None] = lambda places: None
    signs: Signs = field(default_factory=Signs)
    _no_park: str = ""
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def change(self, changes: dict[str, Any]) -> str:
        """What changed, in words. TermsTrouble: nothing did, and why."""
        async with self._one_at_a_time:
            terms = await in_own_thread(lambda: self.keeper.with_changes(changes))
            return await self._change(terms, None)

    async def replace_all(self, text: str) -> str:
        async with self._one_at_a_time:
            terms = await in_own_thread(lambda: self.keeper.with_text(text))
            return await self._change(terms, text)

    async def look(self) -> None:
        """Whether somebody has written the file themselves."""
        async with self._one_at_a_time:
            before = self.keeper.trouble
            try:
                found = await in_own_thread(self.keeper.look)
                if found is not None:
                    self._refuse_impossible(found)
                    await self._put_in_force(found)
            except TermsTrouble as trouble:
                self.keeper.trouble = str(trouble)
            if self.keeper.trouble and self.keeper.trouble != before:
                log.warning("terms_refused", trouble=self.keeper.trouble)

    def shown(self) -> dict[str, Any]:
        terms = self.keeper.terms
        return {
            "values": {key.name: shown_value(terms, key) for key in KEYS},
            "text": written(terms),
            "file": str(self.keeper.path),
            "trouble": self.keeper.trouble,
            "calendar_trouble": self.keeper.calendar_trouble,
            "not_enforced": self.not_enforced(),
        }

    def not_enforced(self) -> list[str]:
        """What the owner asked for and nothing here can hold guests to."""
        terms, house = self.keeper.terms.terms, self.keeper.terms.house
        found = self.signs.missing(login=house.yield_login, keyboard=house.yield_keyboard)
        if house.temperature_c is not None and not self.gpus_are_watched:
            found.append("caps.temperature: no driver tells how hot the GPUs are")
        if terms.vram_bytes is not None and not self.gpus_are_watched:
            found.append("caps.vram: only asked of jobs; no driver tells what they really take")
        if terms.cpus is not None and "cpu" in self.unenforced:
            found.append("caps.cpus: only asked of jobs; nothing here keeps one from taking more")
        if terms.memory_bytes is not None and "memory" in self.unenforced:
            found.append("caps.memory: only asked of jobs; nothing here keeps one from taking more")
        if terms.park and self._no_park:
            found.append(unparkable(self._no_park))
        if terms.network_bps is not None:
            found.append("caps.network: holds for what is saved, not for what guests send by themselves")
        return found

    async def try_parking(self) -> None:
        """Only where the terms want it: the driver is asked for it by a process of its own."""
        if self.keeper.terms.terms.park:
            self._no_park = await in_own_thread(self.why_no_park)

    async def _change(self, terms: OwnersTerms, text: str | None) -> str:
        self._refuse_impossible(terms)
        said = differences(self.keeper.terms, terms)
        await in_own_thread(lambda: self.keeper.write(terms, text))
        if said:
            await self._put_in_force(terms)
        return said

    def _refuse_impossible(self, terms: OwnersTerms) -> None:
        """What only this machine can tell."""
        here = [gpu.index for gpu in self.loop.station.facts.capacity.gpus]
        strange = [index for index in terms.house.yield_gpus if index not in here]
        if strange:
            known = ", ".join(map(str, here)) or "none"
            raise TermsTrouble(f"yield.gpus: this machine has no GPU {strange[0]}; it has: {known}")
        if terms.terms.allow_unsandboxed != self.keeper.terms.terms.allow_unsandboxed:
            raise TermsTrouble(
                "allow_unsandboxed: cannot be changed while the agent runs. Next: stop it and change it then"
            )

    async def _put_in_force(self, terms: OwnersTerms) -> None:
        said = differences(self.keeper.terms, terms, for_others=True)
        longer_alone = terms.terms.autonomy_s > self.keeper.terms.terms.autonomy_s
        await in_own_thread(lambda: self.keeper.take(terms))
        self.caps.take(terms)
        await in_own_thread(lambda: self._open_the_door(terms.terms.egress))
        station = self.loop.station
        station.change_facts(replace(station.facts, terms=terms.terms))
        await self.loop.owner_said(OwnerChangedTerms(said=said))
        await self.in_force()
        await self.try_parking()
        if longer_alone:
            self.greet_again()
        log.info("terms_changed", said=said)

    def _open_the_door(self, places: tuple[str, ...]) -> None:
        try:
            self.allow_places(places)
        except OSError as error:
            self.keeper.trouble = f"egress: not in force, the disk does not take it: {error.strerror}"
