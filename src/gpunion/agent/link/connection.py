"""Keeps the agent in touch with the coordinator, as long as it takes. Nothing here matters to the owner."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import structlog

from gpunion.agent.loop import AgentLoop
from gpunion.domain.environment import InstalledEnvironment
from gpunion.domain.protocol.frames import (
    BusyGpus,
    Finishing,
    GpuReadings,
    Preparing,
    Progress,
    SaveNote,
    SessionNote,
)
from gpunion.ports.clock import Clock
from gpunion.ports.coordinator_link import CoordinatorLink, LinkFault, LinkSession

FIRST_WAIT_S = 0.2
# A coordinator that comes back finds its nodes within a heartbeat or two.
LONGEST_WAIT_S = 5.0
# While guests live on a lease, a call comes after no more than this share of what is left of it. A thousand
# machines with guests then call four thousand times a second at the most, in the last seconds of theirs.
SHARE_OF_LEASE = 1 / 8
# Sooner would not help: a coordinator that is there answers in less.
SHORTEST_WAIT_S = 0.25
# A wrong credential does not become right by itself; looking now and then spares the owner a restart.
PERMANENT_WAIT_S = 30.0
# What GPUs do changes over minutes, and a graph has a point every 15 s.
READINGS_EVERY_S = 10.0

# So that a campus does not knock all at once after the coordinator's restart.
JITTER = (0.5, 1.5)

log = structlog.get_logger()


class Connection:
    def __init__(
        self,
        *,
        loop: AgentLoop,
        link: CoordinatorLink,
        clock: Clock,
        progress: Callable[[], tuple[Progress, ...]],
        preparing: Callable[[], tuple[Preparing, ...]] = tuple,
        saves: Callable[[], tuple[SaveNote, ...]] = tuple,
        finishing: Callable[[], tuple[Finishing, ...]] = tuple,
        readings: Callable[[], GpuReadings] | None = None,
        busy: Callable[[], BusyGpus | None] = lambda: None,
        installed: Callable[[], tuple[InstalledEnvironment, ...]] = tuple,
        sessions: Callable[[], tuple[SessionNote, ...]] = tuple,
    ) -> None:
        """`readings`: of GPUs that a driver is asked about. `busy`: what they did since it was told,
        when that is due."""
        self.trouble = "not connected yet"  # empty while connected
        self._loop = loop
        self._link = link
        self._clock = clock
        self._progress = progress
        self._preparing = preparing
        self._saves = saves
        self._finishing = finishing
        self._readings = readings
        self._busy = busy
        self._installed = installed
        self._sessions = sessions
        self._greet_again = False

    def greet_again(self) -> None:
        """What the machine said of itself when it said hello is not so any more."""
        self._greet_again = True

    async def run(self) -> None:
        """Until cancelled."""
        wait_s = FIRST_WAIT_S
        while True:
            greeted = False
            try:
                async with self._link.connect() as session:
                    self._greet_again = False  # what changes from here on may miss this hello
                    await session.send(await self._loop.connected())
                    greeted = True
                    await self._talk(session)
                fault = LinkFault("the coordinator closed the connection", temporary=True)
            except LinkFault as trouble:
                fault = trouble
            finally:
                self._loop.disconnected(in_vain=not greeted)
            if isinstance(fault, _HelloAgain):
                log.info("greets_again", why=str(fault))
            elif self.trouble != str(fault):
                self.trouble = str(fault)
                log.warning("coordinator_lost", trouble=self.trouble, permanent=not fault.temporary)
            wait_s = FIRST_WAIT_S if greeted else min(LONGEST_WAIT_S, wait_s * 2)
            left_s = self._loop.station.guests_may_go_on_s(self._clock.now_s())
            next_s = before_lease_ends(wait_s, left_s) if fault.temporary else PERMANENT_WAIT_S
            await asyncio.sleep(max(next_s * random.uniform(*JITTER), fault.wait_s))

    async def _talk(self, session: LinkSession) -> None:
        """Whichever of the two ends first ends the other.

        Not a TaskGroup: before Python 3.13 it forgets that we were cancelled when one of its tasks fails at
        that moment, and on Debian 12 it may leave us half cancelled when both end at once.
        """
        both = [asyncio.create_task(self._receive(session)), asyncio.create_task(self._send(session))]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            ends = await asyncio.gather(*both, return_exceptions=True)
        faults = [end for end in ends if isinstance(end, BaseException)]
        for fault in sorted(faults, key=lambda fault: isinstance(fault, LinkFault)):
            if not isinstance(fault, asyncio.CancelledError):
                raise fault  # a bug first

    async def _receive(self, session: LinkSession) -> None:
        frames = aiter(session.frames())
        while True:
            try:
                async with asyncio.timeout(self._silence_s()):
                    frame = await anext(frames)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                # A cut cable closes no connection; opening a new one finds out sooner than waiting.
                raise LinkFault("nothing was heard on the connection", temporary=True) from error
            if self.trouble:
                self.trouble = ""
                log.info("coordinator_found")
            await self._loop.arrived(frame)

    def _of_programs(self) -> tuple[tuple[Progress, ...], tuple[SessionNote, ...]]:
        """What guests' own programs say; small files are read for it."""
        return self._progress(), self._sessions()

    def _silence_s(self) -> float:
        """Every heartbeat is answered, so a connection on which nothing comes for a lease is none."""
        timing = self._loop.station.timing
        return max(timing.lease_s, 3 * timing.heartbeat_s)

    async def _send(self, session: LinkSession) -> None:
        beat_s = readings_s = self._clock.now_s()
        while True:
            if self._greet_again:
                raise _HelloAgain("this machine has something new to say of itself", temporary=True)
            for frame in self._loop.outgoing():
                await session.send(frame)
            now_s = self._clock.now_s()
            heartbeat_s = self._loop.station.timing.heartbeat_s
            if now_s >= beat_s and self._loop.station.connected:
                beat_s = now_s + heartbeat_s
                progress, sessions = await asyncio.to_thread(self._of_programs)
                beat = self._loop.heartbeat(
                    progress,
                    self._preparing(),
                    self._saves(),
                    self._finishing(),
                    self._installed(),
                    sessions,
                )
                await session.send(beat)
            if self._readings is not None and now_s >= readings_s and self._loop.station.connected:
                readings_s = now_s + READINGS_EVERY_S
                await session.send(self._readings())
                busy = self._busy()
                if busy is not None:
                    await session.send(busy)
            await self._loop.something_to_send(
                min(heartbeat_s, max(0.0, beat_s - self._clock.now_s()) or 0.05)
            )


class _HelloAgain(LinkFault):
    """Nothing is wrong: what is said when a connection begins has changed."""


def before_lease_ends(wait_s: float, left_s: float) -> float:
    """Who has no guests to lose, or has lost them, leaves the others their turn."""
    return wait_s if left_s <= 0.0 else min(wait_s, max(SHORTEST_WAIT_S, left_s * SHARE_OF_LEASE))
