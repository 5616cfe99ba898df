"""Looks at the GPUs a few times a second and says what follows, as the owner would.

The owner's first CUDA process on a lent GPU starts a reclaim of that GPU alone; a GPU that failed is
withheld. While the driver does not answer nothing follows from anything: what was last seen is shown as
stale.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from gpunion.agent.loop import AgentLoop
from gpunion.agent.machine.gpu_users import Attribution, GpuUser
from gpunion.agent.machine.gpu_verdicts import Quarantine, Word, Yielding
from gpunion.agent.machine.watch_settings import WatchSettings
from gpunion.domain.nodes.withheld import HoldCause
from gpunion.domain.protocol.events import OwnerResumed
from gpunion.domain.resources import Gpu
from gpunion.ports.clock import Clock
from gpunion.ports.gpus import Gpus, Look

log = structlog.get_logger()


class GpuWatch:
    def __init__(
        self,
        *,
        gpus: Gpus,
        loop: AgentLoop,
        clock: Clock,
        settings: WatchSettings,
        attribution: Attribution,
        in_force: Callable[[], Awaitable[None]],
        more_found: Callable[[tuple[Gpu, ...]], None],
        seen: Callable[[Look, dict[int, tuple[GpuUser, ...]]], None] = lambda look, users: None,
    ) -> None:
        """`in_force`: returns when what was decided is with the keepers. `more_found`: hot-plugged cards.
        `seen`: who counts what each look shows."""
        self.last = Look(at_s=0.0, trouble="not looked yet" if gpus.watched else "no driver is asked")
        self.users: dict[int, tuple[GpuUser, ...]] = {}
        self._gpus = gpus
        self._loop = loop
        self._clock = clock
        self._settings = settings
        self._attribution = attribution
        self._in_force = in_force
        self._more_found = more_found
        self._seen = seen
        self._yielding = Yielding(notice_s=settings.yield_notice_s, quiet_s=settings.quiet_s)
        self._quarantine = Quarantine()
        self._one_at_a_time = asyncio.Lock()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            if not self._gpus.watched or not self._settings.auto_yield:
                await self._give_back_what_nobody_watches()
            while self._gpus.watched:
                await self.look()
                await asyncio.sleep(self._settings.period_s)
            await asyncio.Event().wait()
        finally:
            await self._gpus.close()

    async def look(self) -> None:
        """Looks once and says what follows. Also before a failed guest's end is told: the GPU may be why."""
        if not self._gpus.watched:
            return
        async with self._one_at_a_time:
            look = await self._gpus.look()
            if look.trouble != self.last.trouble:
                log.warning("gpus_not_seen", trouble=look.trouble) if look.trouble else log.info("gpus_seen")
            if look.trouble:
                self.last = look
                return
            users = await asyncio.to_thread(self._attribute, look)
            self.last, self.users = look, users
            self._seen(look, users)
            if len(look.found) > len(self._loop.station.facts.capacity.gpus):
                self._more_found(look.found)
            for word in self._words(look):
                await self._loop.owner_said(word)
                await self._in_force()

    def _attribute(self, look: Look) -> dict[int, tuple[GpuUser, ...]]:
        return {
            sight.index: self._attribution.users(sight.processes)
            for sight in look.gpus
            if sight.processes is not None and not sight.gone
        }

    def _words(self, look: Look) -> list[Word]:
        withheld = self._loop.station.engine.state.holding.gpus
        words = self._quarantine.look(look.gpus, withheld)
        if self._settings.auto_yield:
            own = {
                index: tuple(user for user in users if user.own_work) for index, users in self.users.items()
            }
            words += self._yielding.look(self._clock.now_s(), own, withheld)
        return words

    async def _give_back_what_nobody_watches(self) -> None:
        """Own work took them while somebody looked; without looking nobody would see it end."""
        withheld = self._loop.station.engine.state.holding.gpus
        taken = tuple(gpu.index for gpu in withheld if gpu.cause is HoldCause.OWN_WORK)
        if taken:
            await self._loop.owner_said(OwnerResumed(gpus=taken, cause=HoldCause.OWN_WORK))
