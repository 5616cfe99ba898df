"""The agent's single writer: one thing at a time is decided, put on disk, applied, performed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from gpunion.agent.inbox import Answer, Arrived, Connected, Disconnected, Happened, Inbox, Item, Urgency
from gpunion.agent.next_saved_state import saved_after, worth_writing
from gpunion.agent.tasks import in_own_thread
from gpunion.domain.environment import InstalledEnvironment
from gpunion.domain.protocol.commit import AgentCommit
from gpunion.domain.protocol.effects import AgentEffect, CancelTimer, SendReport, SetTimer
from gpunion.domain.protocol.events import AgentEvent, AgentStarted
from gpunion.domain.protocol.frames import (
    AgentFrame,
    CoordinatorFrame,
    Finishing,
    Heartbeat,
    Hello,
    Preparing,
    Progress,
    SaveNote,
    SessionNote,
)
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.ports.agent_disk import AgentDisk, DiskFault
from gpunion.ports.clock import Clock

# The longest the loop sleeps. A suspended machine wakes with its timers overdue, and the loop's own clock did
# not run meanwhile.
TICK_S = 1.0

Perform = Callable[[AgentEffect], None]
Committed = Callable[[AgentCommit, float], None]  # and how many milliseconds it took


class AgentLoop:
    def __init__(
        self, *, station: PureAgent, disk: AgentDisk, clock: Clock, perform: Perform, committed: Committed
    ) -> None:
        self.station = station
        self.forgettable = ""  # why the disk is behind; empty while it is not
        self.no_room = False  # that is why, and the disk itself does not fail
        self._disk = disk
        self._clock = clock
        self._perform = perform
        self._committed = committed
        self._inbox = Inbox()
        self._something_to_send = asyncio.Event()

    # --- what happened ---------------------------------------------------------------------------

    def post(self, event: AgentEvent) -> None:
        self._inbox.put(Urgency.MACHINE, Happened(event=event))

    def owner_meant(self, event: AgentEvent) -> None:
        """The owner's word that nobody waits to be answered."""
        self._inbox.put(Urgency.OWNER, Happened(event=event))

    async def owner_said(self, event: AgentEvent) -> Answer:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._inbox.put(Urgency.OWNER, Happened(event=event, answer=answer))
        return await answer

    async def wrote_down(self, event: AgentEvent) -> None:
        """Returns when what follows from it is on the disk; on a full one at once, since whoever waits for
        this is about to make room."""
        await self.owner_said(event)
        while self.forgettable and not self.no_room:
            await asyncio.sleep(TICK_S)

    async def begin(self, event: AgentStarted) -> None:
        """Before `run`, and before any timer: one that came due while no agent lived may be an old one."""
        await self._settle(event)

    async def connected(self) -> Hello:
        hello: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self._inbox.put(Urgency.COORDINATOR, Connected(hello=hello))
        return await hello

    async def arrived(self, frame: CoordinatorFrame) -> None:
        """Returns when the frame is taken over, so that a connection reads no faster than we decide."""
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._inbox.put(Urgency.COORDINATOR, Arrived(frame=frame, taken=taken))
        await taken

    def disconnected(self, *, in_vain: bool = False) -> None:
        """`in_vain`: nobody had answered."""
        self._inbox.put(Urgency.COORDINATOR, Disconnected(in_vain=in_vain))

    # --- what to send ----------------------------------------------------------------------------

    def outgoing(self) -> list[AgentFrame]:
        """Nothing while the disk is behind: after a crash the same numbers would mean other reports."""
        return [] if self.forgettable else list(self.station.outgoing(self._clock.now_s()))

    def heartbeat(
        self,
        progress: tuple[Progress, ...],
        preparing: tuple[Preparing, ...] = (),
        saves: tuple[SaveNote, ...] = (),
        finishing: tuple[Finishing, ...] = (),
        installed: tuple[InstalledEnvironment, ...] = (),
        sessions: tuple[SessionNote, ...] = (),
    ) -> Heartbeat:
        now_s = self._clock.now_s()
        return self.station.heartbeat(now_s, progress, preparing, saves, finishing, installed, sessions)

    async def something_to_send(self, patience_s: float) -> None:
        try:
            async with asyncio.timeout(patience_s):
                await self._something_to_send.wait()
        except TimeoutError:
            return
        finally:
            self._something_to_send.clear()

    # --- deciding --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled. An exception is a bug: the process ends and the guests wait for the next."""
        while True:
            due = self.station.due(self._clock.now_s())
            if due is not None:
                await self._settle(due)
                continue
            item = await self._inbox.get(self._patience_s())
            if item is not None:
                await self._take(item)
            elif self.forgettable:
                await self._catch_up()

    def _patience_s(self) -> float:
        next_s = self.station.next_due_s()
        return TICK_S if next_s is None else min(TICK_S, max(0.0, next_s - self._clock.now_s()))

    async def _take(self, item: Item) -> None:
        match item:
            case Happened():
                answer = await self._settle(item.event)
                if item.answer is not None and answer is not None and not item.answer.done():
                    item.answer.set_result(answer)
            case Connected():
                if not item.hello.done():
                    item.hello.set_result(self.station.hello(self._clock.now_s()))
            case Arrived():
                for event, order_seq in self.station.frame_arrived(self._clock.now_s(), item.frame):
                    await self._settle(event, order_seq)
                self._something_to_send.set()
                if not item.taken.done():
                    item.taken.set_result(None)
            case Disconnected():
                self.station.disconnected(in_vain=item.in_vain)

    async def _settle(self, event: AgentEvent, order_seq: int | None = None) -> Answer | None:
        began_s = time.perf_counter()
        commit = self.station.decide(self._clock.now_s(), event, order_seq)
        if worth_writing(commit) and not await self._write(commit):
            if order_seq is not None:
                return None  # not acknowledged, so it comes again; by then there may be room to remember it
            # What happened has happened, and the owner's word counts whether or not it can be written down.
        self.station.committed(commit)
        for effect in commit.decision.effects:
            if not isinstance(effect, SetTimer | CancelTimer | SendReport):
                self._perform(effect)
        if commit.reports:
            self._something_to_send.set()
        if not commit.decision.empty:
            self._committed(commit, (time.perf_counter() - began_s) * 1000)
        return Answer(commit=commit, forgettable=self.forgettable)

    async def _write(self, commit: AgentCommit) -> bool:
        saved = saved_after(self.station, commit)
        try:
            await in_own_thread(lambda: self._disk.write(saved))
        except DiskFault as fault:
            self.forgettable, self.no_room = str(fault), fault.no_room
            return False
        self.forgettable = ""
        return True

    async def _catch_up(self) -> None:
        try:
            saved = self.station.saved()
            await in_own_thread(lambda: self._disk.write(saved))
        except DiskFault as fault:
            self.forgettable, self.no_room = str(fault), fault.no_room
            return
        self.forgettable = ""
        self._something_to_send.set()
