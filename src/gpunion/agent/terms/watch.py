"""Looks every second at what the owner's terms make of the moment, and says what follows, as they would.

The hours and the calendar go by the clock on the wall, deadlines by the machine's own count of seconds: each
look translates anew, so that setting the clock moves what is to come and nothing that was promised.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from gpunion.agent.loop import AgentLoop
from gpunion.agent.machine.gpu_watch import GpuWatch
from gpunion.agent.terms.in_force import TermsKeeper
from gpunion.agent.terms.presence import Signs
from gpunion.domain.ids import RunId
from gpunion.domain.protocol.events import AgentEvent, DepartureForeseen, GuestOverstepped
from gpunion.domain.resources import GIB
from gpunion.policy.terms.civil import shown
from gpunion.policy.terms.forecast import Forecast, Times
from gpunion.policy.terms.rules import (
    HEAT,
    HOURS,
    PRESENCE,
    SAME_MOMENT_S,
    Presence,
    Rule,
    SingleGpus,
    WholeMachine,
    Word,
)
from gpunion.ports.clock import Clock

LOOK_S = 1.0
# A forecast is made anew at least this often, and at once when the clock on the wall was set.
FORECAST_S = 60.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A forecast, when it was made on the wall, and of what."""

    at_s: float
    times: Times
    forecast: Forecast


class TermsWatch:
    def __init__(
        self,
        *,
        keeper: TermsKeeper,
        loop: AgentLoop,
        clock: Clock,
        gpus: GpuWatch | None,
        in_force: Callable[[], Awaitable[None]],
        file_changed: Callable[[], Awaitable[None]],
        signs: Signs | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`file_changed`: looks at the file, and puts in force what is new in it."""
        self.signs = signs or Signs()
        self._keeper = keeper
        self._loop = loop
        self._clock = clock
        self._gpus = gpus
        self._in_force = in_force
        self._file_changed = file_changed
        self._wall = wall
        self._machine = WholeMachine()
        self._single = SingleGpus()
        self._presence = Presence()
        self._when_said = ("", "", "")  # hours, calendar and zone as of the last look
        self._made: Made | None = None
        self._told: DepartureForeseen | None = None
        self._told_after = 0  # how many greetings

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._file_changed()
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        seen = await asyncio.to_thread(self._seen)
        here = self._presence.look(self._clock.now_s(), seen, self._keeper.terms.house.yield_quiet_s)
        words: list[AgentEvent] = [*self._about_all(here), *self._about_gpus(here), *self._overstepped()]
        for word in words:
            await self._loop.owner_said(word)
            await self._in_force()
        await self._foretell()

    def forecast(self) -> Forecast:
        """On the wall's clock. Kept while nothing has changed: a calendar may be long."""
        now_s, made = self._wall(), self._made
        if made is not None and made.times is self._keeper.times:
            changes_s = made.forecast.changes_s
            if made.at_s <= now_s < made.at_s + FORECAST_S and (changes_s is None or now_s < changes_s):
                return made.forecast
        forecast = self._keeper.times.forecast(now_s)
        self._made = Made(at_s=now_s, times=self._keeper.times, forecast=forecast)
        return forecast

    def on_the_wall(self, at_s: float) -> str:
        return shown(at_s, self._keeper.times.zone, self._wall())

    @property
    def lent_in_spite(self) -> bool:
        """Outside the hours, by the owner's own word."""
        return HOURS in self._machine.excused

    # --- private ---------------------------------------------------------------------------------

    def _seen(self) -> str:
        """Not who, nor where: it is told the campus as the reason, and guests."""
        house = self._keeper.terms.house
        if house.yield_login and self.signs.logged_in():
            return "somebody is logged in"
        return "somebody types" if house.yield_keyboard and self.signs.typing(self._wall()) else ""

    def _about_all(self, here: str) -> list[Word]:
        terms, house = self._keeper.terms.terms, self._keeper.terms.house
        when = (house.hours, house.calendar, house.timezone)
        if when != self._when_said:
            self._machine.excused.discard(HOURS)  # the owner's last word counts, and these hours are it
            self._when_said = when
        rules = self._by_the_hours(terms.notice_s)
        if here and not house.yield_gpus:
            rules.append(self._presence_rule(here))
        holding = self._loop.station.engine.state.holding
        word = self._machine.look(self._clock.now_s(), rules, holding)
        return [] if word is None else [word]

    def _by_the_hours(self, notice_s: float) -> list[Rule]:
        forecast, wall_s = self.forecast(), self._wall()
        if not forecast.lent:
            return [Rule(name=HOURS, detail=forecast.because, notice_s=notice_s)]
        if forecast.changes_s is None or forecast.changes_s - wall_s > notice_s:
            return []
        until = self.on_the_wall(forecast.changes_s)
        left_s = max(0.0, forecast.changes_s - wall_s)
        return [Rule(name=HOURS, detail=f"it is lent until {until}", notice_s=left_s, due=True)]

    def _presence_rule(self, here: str) -> Rule:
        terms = self._keeper.terms
        notice_s = terms.house.yield_notice_s
        return Rule(
            name=PRESENCE, detail=here, notice_s=terms.terms.notice_s if notice_s is None else notice_s
        )

    def _about_gpus(self, here: str) -> list[Word]:
        now_s, house = self._clock.now_s(), self._keeper.terms.house
        station = self._loop.station
        present = {index: self._presence_rule(here) for index in house.yield_gpus} if here else {}
        heat = {gpu.index: self._heat(now_s, gpu.index) for gpu in station.facts.capacity.gpus}
        return self._single.look(now_s, heat, present, station.engine.state.holding.gpus)

    def _heat(self, now_s: float, index: int) -> Rule | None:
        cap_c = self._keeper.terms.house.temperature_c
        sight = None if self._gpus is None or self._gpus.last.trouble else self._gpus.last.of(index)
        if cap_c is None or sight is None or sight.temperature_c is None:
            return None
        if not self._single.too_hot(now_s, index, sight.temperature_c, cap_c):
            return None
        detail = f"it has {sight.temperature_c:.0f} C, its owner allows {cap_c:g}"
        return Rule(name=HEAT, detail=detail, notice_s=self._keeper.terms.terms.notice_s)

    def _overstepped(self) -> list[GuestOverstepped]:
        """Nothing keeps a program from a GPU's memory; who takes more than is lent is asked to go."""
        cap_bytes = self._keeper.terms.terms.vram_bytes
        if cap_bytes is None or self._gpus is None or self._gpus.last.trouble:
            return []
        found = []
        guests = self._loop.station.engine.state.guests
        for index, users in sorted(self._gpus.users.items()):
            taken: dict[str, int] = {}
            for user in users:
                if user.run_id is not None:
                    taken[user.run_id] = taken.get(user.run_id, 0) + (user.memory_bytes or 0)
            for run_id, took_bytes in taken.items():
                guest = guests.get(RunId(run_id))
                if took_bytes > cap_bytes and guest is not None and guest.living and not guest.overstepped:
                    detail = (
                        f"it took {took_bytes / GIB:.1f} GiB of GPU {index}, {cap_bytes / GIB:.1f} are lent"
                    )
                    found.append(GuestOverstepped(run_id=guest.run_id, detail=detail))
        return found

    async def _foretell(self) -> None:
        """What the scheduler should know ahead. Told again after every greeting, which makes it forget."""
        foreseen, station = self._foreseen(), self._loop.station
        greeted = station.connected and station.greetings != self._told_after
        news = self._told is None or not _same(foreseen, self._told)
        nothing_to_say = self._told is None and foreseen == DepartureForeseen(at_s=None)
        if (news or greeted) and not nothing_to_say:
            await self._loop.owner_said(foreseen)
            self._told = foreseen
            log.info(
                "departure_foreseen", in_s=_in_s(foreseen, self._clock.now_s()), because=foreseen.because
            )
        if station.connected:
            self._told_after = station.greetings

    def _foreseen(self) -> DepartureForeseen:
        forecast = self.forecast()
        if self.lent_in_spite:
            return DepartureForeseen(at_s=None)
        if not forecast.lent:
            return DepartureForeseen(at_s=None, because=forecast.because)
        if forecast.changes_s is None:
            return DepartureForeseen(at_s=None)
        return DepartureForeseen(at_s=self._clock.now_s() + forecast.changes_s - self._wall())


def _same(one: DepartureForeseen, other: DepartureForeseen) -> bool:
    if one.at_s is None or other.at_s is None:
        return one == other
    return abs(one.at_s - other.at_s) <= SAME_MOMENT_S and one.because == other.because


def _in_s(foreseen: DepartureForeseen, now_s: float) -> float | None:
    return None if foreseen.at_s is None else round(foreseen.at_s - now_s, 1)
