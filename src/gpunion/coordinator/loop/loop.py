"""The single writer: one thing happens, is decided, committed and only then made known; then the next.

Everything that changes the campus goes through here: requests, agents' frames, timers, leases. A fault of the
store that will not pass ends the loop and with it the process, and so does a bug after a commit: what is
committed is the truth, and a fresh start from it is safer than any repair (crash-only). A full disk does not:
a decision that cannot be written down is not made, whoever asked for it is told so, and what comes by itself
comes again. Nor does a bug before a commit: what it was met over is set aside, and everybody else goes on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from gpunion.coordinator.loop.answers import NotAccepting, NotHandled, Outcome, passing_failure_to
from gpunion.coordinator.loop.clock import SteadyClock
from gpunion.coordinator.loop.connections import Line, Switchboard
from gpunion.coordinator.loop.crash_point import CrashPoint
from gpunion.coordinator.loop.health import Finding, Ledger, Room
from gpunion.coordinator.metrics import series
from gpunion.coordinator.metrics.counting import Counting
from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.job import Job
from gpunion.domain.protocol.commit import Commit, InboxMark
from gpunion.domain.protocol.effects import SendOrder
from gpunion.domain.protocol.events import CoordinatorEvent, CoordinatorStarted, NodeJoined, TimerFired
from gpunion.domain.protocol.frames import AgentFrame, Hello
from gpunion.engine.coordinator import audit, carefully
from gpunion.engine.coordinator.handlers.asides import PLAN_AGAIN_S
from gpunion.engine.coordinator.pure_coordinator import Posted, PureCoordinator
from gpunion.engine.transcript import Transcript
from gpunion.ports.database import (
    LoggedDecision,
    Store,
    StoreFault,
    StoreFull,
    event_name,
    is_logged,
    log_line,
)

# Each connection and request waits for its own answer, so this many are many clients, not a backlog of one.
QUEUE_LIMIT = 4096
# A store that is busy for longer than these pauses together is not going to recover by itself.
RETRY_PAUSES_S = (0.05, 0.2, 1.0, 3.0)
# Frames that wait are taken before time is asked, so that a stalled process hears its agents before it
# calls them silent; but never so many that a deadline waits.
FRAMES_BEFORE_TIME = 64

log = structlog.get_logger("gpunion.coordinator")


@dataclass(frozen=True, slots=True)
class _Posted:
    event: CoordinatorEvent
    key: str | None
    answer: asyncio.Future[Outcome]


@dataclass(frozen=True, slots=True)
class _Arrived:
    line: Line
    frame: AgentFrame
    answer: asyncio.Future[None]


@dataclass(frozen=True, slots=True)
class _HungUp:
    node_id: NodeId


Observer = Callable[[Commit, LoggedDecision], None]


class Loop:
    def __init__(
        self,
        *,
        station: PureCoordinator,
        store: Store,
        clock: SteadyClock,
        switchboard: Switchboard,
        ledger: Ledger,
        counting: Counting,
        crash_point: CrashPoint,
        lead_s: float,
        strict_audit: bool = False,
    ) -> None:
        self.station = station
        self.observers: list[Observer] = []  # told of every line of the log, after it is committed
        self._store = store
        self._clock = clock
        self._switchboard = switchboard
        self._ledger = ledger
        self._counting = counting
        self._crash_point = crash_point
        self._lead_s = lead_s
        self._strict_audit = strict_audit
        self._queue: deque[_Posted | _Arrived | _HungUp] = deque()
        self._wake = asyncio.Event()
        self._ending = False
        self._acknowledged: dict[NodeId, int] = {}
        self._suspects_again_s = 0.0
        self._transcript = Transcript()
        self._room = Room()

    # --- for routes ------------------------------------------------------------------------------

    async def post(self, event: CoordinatorEvent, *, key: str | None = None) -> Outcome:
        """Returns when the decision is committed. `key` is kept where the decision accepts a job."""
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._put(_Posted(event, key, answer))
        return await answer

    async def deliver(self, line: Line, frame: AgentFrame) -> None:
        """Returns when the frame is dealt with, so that a connection never has two under way."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._put(_Arrived(line, frame, answer))
        await answer

    def hang_up(self, line: Line) -> None:
        if self._switchboard.drop(line) and not self._ending:
            self._queue.append(_HungUp(line.node_id))
            self._wake.set()

    # --- for the process -------------------------------------------------------------------------

    async def run(self) -> None:
        """Until `end`; raises what nobody may go on after."""
        renew_s = self._clock.now_s() + self._lead_s / 3
        try:
            with suppress(NotHandled):
                await self._happen(CoordinatorStarted())
            while not self._ending:
                for _ in range(min(len(self._queue), FRAMES_BEFORE_TIME)):
                    await self._work(self._queue.popleft())
                now_s = self._clock.now_s()
                if now_s >= renew_s:
                    await self._renew(now_s)
                    renew_s = now_s + self._lead_s / 3
                due = self.station.due(now_s) if self._room.may_be_asked(now_s) else None
                if due is not None:
                    with suppress(StoreFull, NotHandled):  # of a full disk, its time stays come
                        await self._happen(due)
                elif not self._queue:
                    await self._sleep_until(renew_s)
        finally:
            self._refuse_the_rest()

    def end(self) -> None:
        self._ending = True
        self._wake.set()

    # --- private ---------------------------------------------------------------------------------

    def _put(self, work: _Posted | _Arrived) -> None:
        if self._ending or len(self._queue) >= QUEUE_LIMIT:
            raise NotAccepting
        self._queue.append(work)
        self._wake.set()

    async def _renew(self, now_s: float) -> None:
        try:
            await self._store.renew(term=self.station.term, now_s=now_s, lead_s=self._lead_s)
        except StoreFault as fault:
            if not fault.temporary:
                raise
            log.warning("store_fault", trouble=str(fault))  # the lead lasts for two more attempts

    async def _sleep_until(self, renew_s: float) -> None:
        next_s = self.station.next_due_s()
        until_s = renew_s if next_s is None else min(max(next_s, self._room.asked_again_s), renew_s)
        try:
            async with asyncio.timeout(max(0.0, until_s - self._clock.now_s())):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _work(self, work: _Posted | _Arrived | _HungUp) -> None:
        match work:
            case _HungUp(node_id):
                if not self._switchboard.connected(node_id):
                    self.station.disconnected(node_id)
            case _Posted(event, key, answer):
                with passing_failure_to(answer):
                    outcome = await self._happen(event, key=key)
                    if not answer.done():
                        answer.set_result(outcome)
            case _Arrived(line, frame, answer):
                with passing_failure_to(answer):
                    await self._take_frame(line, frame)
                    if not answer.done():
                        answer.set_result(None)

    async def _take_frame(self, line: Line, frame: AgentFrame) -> None:
        if not self._switchboard.is_current(line):
            return
        self._ledger.count(f"frames.{type(frame).__name__}")
        node_id = line.node_id
        try:
            for event, mark in await self._events_of(node_id, frame):
                try:
                    await self._happen(event, mark=mark)
                except NotHandled:
                    if isinstance(frame, Hello):
                        raise  # it waits for a welcome that will not come
        except StoreFull:
            if isinstance(frame, Hello):
                raise  # it waits for a welcome that will not come
            # Not acknowledged, so it comes again; its lease is renewed all the same.
        orders = self.station.links[node_id].orders
        arrived = min(orders.waiting, default=orders.last_seq + 1) - 1
        if arrived > self._acknowledged.get(node_id, 0):
            self._acknowledged[node_id] = arrived
            await self._store.acknowledged(node_id, arrived)
        self._switchboard.wake(node_id)

    async def _events_of(self, node_id: NodeId, frame: AgentFrame) -> list[Posted]:
        try:
            return self.station.frame_arrived(self._clock.now_s(), node_id, frame)
        except Exception as bug:
            event, mark = self.station.as_said(node_id, frame)
            with suppress(NotHandled):
                await self._set_aside(event, mark, bug)
            return []

    async def _happen(
        self, event: CoordinatorEvent, *, mark: InboxMark | None = None, key: str | None = None
    ) -> Outcome:
        with self._counting.timed(series.CYCLE):
            careful = carefully.decide(self.station, self._clock.now_s(), event, mark)
        commit = careful.commit
        if key is not None and any(isinstance(record, Job) for record in commit.decision.changes):
            commit = replace(commit, idempotency_key=key)
        try:
            seq = await self._commit(commit) if _worth_writing(commit) else 0
        except StoreFault:
            raise
        except Exception as bug:  # what was decided cannot be written
            if careful.set_aside:
                raise
            return await self._set_aside(event, mark, bug)
        outcome = self._remember(commit, seq)
        if careful.set_aside and careful.failure is not None:
            raise self._not_handled(event, careful.failure)
        if careful.failure is not None:
            await self._plan_again(event, careful.failure)
        return outcome

    async def _set_aside(self, event: CoordinatorEvent, mark: InboxMark | None, bug: Exception) -> Outcome:
        careful = carefully.set_aside(self.station, self._clock.now_s(), event, mark, bug)
        commit = careful.commit
        self._remember(commit, await self._commit(commit) if _worth_writing(commit) else 0)
        raise self._not_handled(event, bug)

    def _not_handled(self, event: CoordinatorEvent, bug: Exception) -> NotHandled:
        self._log_bug("set_aside", event, bug)
        return NotHandled(carefully.in_words(bug))

    async def _plan_again(self, event: CoordinatorEvent, bug: Exception) -> None:
        """Who is at fault is looked for now and then only: it takes as long as many plans."""
        now_s = self._clock.now_s()
        if now_s < self._suspects_again_s:
            return
        self._suspects_again_s = now_s + PLAN_AGAIN_S
        self._log_bug("planning_failed", event, bug)
        await self._happen(carefully.planning_failed(self.station, now_s, event, bug))

    def _log_bug(self, what: str, event: CoordinatorEvent, bug: Exception) -> None:
        self._ledger.count(what)
        log.error(what, event_name=event_name(event), exc_info=bug)

    def _remember(self, commit: Commit, seq: int) -> Outcome:
        """What raises here is fatal: the store knows what memory does not, and a fresh start reads it."""
        self._count(commit)
        self.station.committed(commit)
        self._audit(commit)
        logged = seq if is_logged(commit) else 0
        if logged:
            self._tell(commit, log_line(commit, seq))
        for node_id in _addressed(commit):
            self._switchboard.wake(node_id)
        return Outcome(commit, logged)

    async def _commit(self, commit: Commit) -> int:
        self._crash_point.before_commit()
        with self._counting.timed(series.COMMIT):
            seq = await self._commit_with_patience(commit)
        self._crash_point.after_commit()
        self._ledger.count("commits")
        return seq

    async def _commit_with_patience(self, commit: Commit) -> int:
        for pause_s in RETRY_PAUSES_S:
            try:
                seq = await self._store.commit(commit, term=self.station.term)
                self._room.found()
                return seq
            except StoreFull as fault:
                self._ledger.count("store_full")
                self._room.missed(self._clock.now_s(), fault)
                raise
            except StoreFault as fault:
                if not fault.temporary:
                    raise
                self._ledger.count("store_faults")
                log.warning("store_fault", trouble=str(fault), again_in_s=pause_s)
            await asyncio.sleep(pause_s)
        return await self._store.commit(commit, term=self.station.term)

    def _count(self, commit: Commit) -> None:
        try:
            self._counting.committed(self.station.engine.state, commit)
        except Exception as bug:  # it only counts
            self._log_bug("counting_failed", commit.event, bug)

    def _audit(self, commit: Commit) -> None:
        try:
            violations = audit.check(self.station.engine.state, commit.decision)
        except Exception as bug:  # it only looks
            self._log_bug("audit_failed", commit.event, bug)
            return
        for violation in violations:
            detail = f"{violation.subject}: {violation.what}"
            name = event_name(commit.event)
            log.error("violation", invariant=violation.invariant, detail=detail, event_name=name)
            self._ledger.found(
                Finding(at_s=commit.at_s, event=name, invariant=str(violation.invariant), detail=detail)
            )
        if violations and self._strict_audit:
            raise audit.BrokenInvariant(violations)

    def _tell(self, commit: Commit, line: LoggedDecision) -> None:
        self._ledger.count(f"decisions.{line.event}")
        try:
            told = self._transcript.line(commit)
        except Exception as bug:  # it only tells
            self._log_bug("telling_failed", commit.event, bug)
            told = ""
        log.info(
            "decision",
            seq=line.seq,
            happened=line.event,
            subjects=list(line.subjects),
            reasons=[f"{reason.subject}: {reason.why.value}" for reason in line.reasons],
            effects=list(line.effects),
            told=told,
        )
        for observer in self.observers:
            observer(commit, line)

    def _refuse_the_rest(self) -> None:
        self._ending = True
        for work in self._queue:
            if not isinstance(work, _HungUp) and not work.answer.done():
                work.answer.set_exception(NotAccepting())
        self._queue.clear()


def _worth_writing(commit: Commit) -> bool:
    if isinstance(commit.event, TimerFired) or commit.mark is not None:
        return True
    return not commit.decision.empty


def _addressed(commit: Commit) -> set[NodeId]:
    """Nodes that something is to be sent to now."""
    found = {effect.node_id for effect in commit.decision.effects if isinstance(effect, SendOrder)}
    if isinstance(commit.event, NodeJoined):
        found.add(commit.event.node_id)
    return found
