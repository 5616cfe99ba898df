"""Watches for signs that the owner is about to want their machine, and tells the campus which are shown.

Only that: not who is there, nor on which terminal, nor what runs. Nothing is told while the owner has the
machine, nor where their terms say so; and a sign that is their own rule to have it back (`yield.login`,
`yield.keyboard`) is none, since the machine is theirs the moment it is seen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from gpunion.agent.loop import AgentLoop
from gpunion.agent.machine.gpu_watch import GpuWatch
from gpunion.agent.terms.in_force import TermsKeeper
from gpunion.agent.terms.presence import Signs as Presence
from gpunion.domain.jobs.guest import OwnerState
from gpunion.domain.nodes.signs import Sign, Signs, in_order
from gpunion.domain.protocol.events import SignsSeen
from gpunion.ports.clock import Clock

# Typing is seen for ten seconds; looking costs one small file and the times of a few others.
LOOK_EVERY_S = 5.0
# People stop to think. A sign is over when it was not seen for this long, so that a campus hears of a morning
# at a desk a few times and not at every pause.
HOLD_S = 600.0

_LENT = (OwnerState.SHARING, OwnerState.PAUSED)


class SignWatch:
    def __init__(
        self,
        *,
        keeper: TermsKeeper,
        loop: AgentLoop,
        clock: Clock,
        gpus: GpuWatch | None,
        presence: Presence | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._keeper = keeper
        self._loop = loop
        self._clock = clock
        self._gpus = gpus
        self._presence = presence or Presence()
        self._wall = wall
        self._seen_s: dict[Sign, float] = {}
        self._told: Signs | None = None
        self._told_after = 0  # how many greetings

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        station = self._loop.station
        signs = in_order(await self._shown()) if self._tells() else None
        if not station.connected:
            return  # what passes until then is nobody's business any more
        greeted = station.greetings != self._told_after  # which makes the coordinator forget
        self._told_after = station.greetings
        if signs != self._told or (greeted and signs is not None):
            self._told = signs
            await self._loop.owner_said(SignsSeen(signs=signs))

    def shown(self) -> dict[str, Any]:
        """For the owner: what the campus knows at this moment."""
        house = self._keeper.terms.house
        return {
            "tells": house.signs,
            "told": None if self._told is None else [sign.value for sign in self._told],
        }

    def _tells(self) -> bool:
        lent = self._loop.station.engine.state.holding.owner_state in _LENT
        return lent and self._keeper.terms.house.signs

    async def _shown(self) -> frozenset[Sign]:
        now_s = self._clock.now_s()
        for sign in await asyncio.to_thread(self._seen):
            self._seen_s[sign] = now_s
        held = {sign for sign, at_s in self._seen_s.items() if now_s - at_s < HOLD_S}
        return frozenset(held - self._own_rules())

    def _own_rules(self) -> set[Sign]:
        house = self._keeper.terms.house
        rules = {Sign.OWNER_LOGGED_IN: house.yield_login, Sign.KEYBOARD: house.yield_keyboard}
        return {sign for sign, is_rule in rules.items() if is_rule}

    def _seen(self) -> set[Sign]:
        own_rules, found = self._own_rules(), set()
        if Sign.OWNER_LOGGED_IN not in own_rules and self._presence.logged_in():
            found.add(Sign.OWNER_LOGGED_IN)
        if Sign.KEYBOARD not in own_rules and self._presence.typing(self._wall()):
            found.add(Sign.KEYBOARD)
        if self._gpus is not None and not self._gpus.last.trouble:
            users = [user for of_gpu in self._gpus.users.values() for user in of_gpu]
            if any(user.own_work for user in users):
                found.add(Sign.OWNER_ON_GPU)
        return found
