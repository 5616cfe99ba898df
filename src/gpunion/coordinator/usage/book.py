"""The meter beside the loop, and the history that it is written to once a minute."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.run import Run
from gpunion.domain.nodes.node import Node
from gpunion.domain.protocol.commit import Commit
from gpunion.domain.protocol.frames import BusyGpus, GpuReadings
from gpunion.engine.coordinator.state import CampusState
from gpunion.ports.usage_history import (
    HOUR_S,
    MINUTE_S,
    MINUTES_KEPT_S,
    BusySum,
    GpuPoint,
    HistoryBatch,
    HistoryFault,
    PhaseSince,
    PointsAsked,
    PointsTold,
    UsageHistory,
    UsageSum,
)

from .busy_hours import BusyHours
from .gpu_minutes import GpuMinutes
from .meter import Meter
from .open_machines import OpenMachines, is_open

log = structlog.get_logger("gpunion.coordinator")

# A row of GPUs' figures has an hour in it and is written anew each time: not for every minute.
POINTS_EVERY_S = 600.0
FORGETS_EVERY_S = 0.9 * MINUTE_S
DAY_S = 24.0 * HOUR_S
# Who asks for exactly a day or a week means all that there is by the minute.
SLACK_S = float(MINUTE_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What the history says of a time; `began_s`: it knows nothing before."""

    began_s: float | None = None
    sums: Sequence[UsageSum] = ()
    busy: Sequence[BusySum] = ()
    phases: Sequence[PhaseSince] = ()
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastPoints:
    """Each is of `point_s`."""

    point_s: int
    told: PointsTold


class UsageBook:
    def __init__(
        self,
        history: UsageHistory,
        state: Callable[[], CampusState],
        now_s: Callable[[], float],
        count_fault: Callable[[], None] = lambda: None,
    ) -> None:
        self._history = history
        self._state = state
        self._now_s = now_s
        self._count_fault = count_fault
        self._meter = Meter()
        self._busy = BusyHours(now_s())
        self._gpus = GpuMinutes()
        self._machines = OpenMachines()
        self._points_s = now_s()
        self._forgot_s = -math.inf
        self._trouble = ""
        self._damaged, self._damage = 0, ""
        self._writing = asyncio.Lock()
        self._meter.begin(now_s(), state())
        self._machines.changed(now_s(), state(), state().nodes)

    def committed(self, commit: Commit) -> None:
        """After memory has followed the store. It only counts, so a bug of it ends nothing."""
        changed = {
            record.id if isinstance(record, Node) else record.node_id
            for record in commit.decision.changes
            if isinstance(record, Node | Run)
        }
        if not changed:
            return
        try:
            self._gpus.forget(self._machines.changed(commit.at_s, self._state(), changed))
            self._meter.changed(commit.at_s, self._state(), changed)
        except Exception as bug:
            log.error("usage_not_counted", trouble=str(bug), exc_info=bug)

    def heard(self, node_id: NodeId, told: GpuReadings | BusyGpus) -> None:
        """What a machine says of its GPUs. Nothing is decided by it, so a bug of it ends nothing either."""
        node = self._state().nodes.get(node_id)
        if node is None:
            return
        try:
            if isinstance(told, GpuReadings):
                self._gpus.heard(self._now_s(), node, told)
            else:
                self._busy.heard(self._now_s(), node, told)
        except Exception as bug:
            log.error("usage_not_counted", trouble=str(bug), exc_info=bug)

    async def write(self, *, all_of_it: bool = False) -> None:
        """What was counted so far. Where the history does not take it, it waits in memory. Nothing is raised:
        who writes once a minute goes on, whatever it was."""
        async with self._writing:
            try:
                await self._write(self._now_s(), all_of_it)
            except HistoryFault as fault:
                self._failed(str(fault))
            except Exception as bug:
                log.error("usage_not_written", trouble=str(bug), exc_info=bug)
                self._failed(f"{type(bug).__name__}: {bug}")
            else:
                self._tell("")

    async def _write(self, now_s: float, all_of_it: bool) -> None:
        batch = self._batch(now_s, all_of_it)
        try:
            await asyncio.to_thread(self._history.add, batch)
        except Exception:
            self._put_back(batch)
            raise
        self._look_for_damage()
        # Not at each question: how fast the history forgets is not to depend on who asks.
        if now_s - self._forgot_s >= FORGETS_EVERY_S:
            await asyncio.to_thread(self._history.forget_old, now_s=now_s)
            self._forgot_s = now_s

    def _batch(self, now_s: float, all_of_it: bool) -> HistoryBatch:
        points: Sequence[GpuPoint] = ()
        if all_of_it or not 0.0 <= now_s - self._points_s < POINTS_EVERY_S:
            self._points_s = now_s
            points = self._gpus.take(now_s)
        phases, forget = self._machines.take()
        return HistoryBatch(
            sums=self._meter.take(now_s),
            busy=self._busy.take(),
            points=points,
            phases=phases,
            forget=forget,
            open=self._open(),
        )

    def _put_back(self, batch: HistoryBatch) -> None:
        shut = self._machines.shut  # while the history was asked
        self._meter.put_back(batch.sums)
        self._busy.put_back(batch.busy)
        self._gpus.put_back(point for point in batch.points if point.node not in shut)
        self._machines.put_back(batch.phases, batch.forget)

    def _open(self) -> frozenset[str]:
        return frozenset(node.id for node in self._state().nodes.values() if is_open(node))

    async def remembered(self, since_s: float, until_s: float) -> Remembered:
        """By the minute as far as minutes are kept, else by the hour, from the hour on that has it."""
        await self.write()
        try:
            found = await asyncio.to_thread(self._read, since_s, until_s, self._open())
        except HistoryFault as fault:
            return Remembered(trouble=str(fault))
        self._look_for_damage()
        damage, self._damage = self._damage, ""
        return replace(found, trouble=self._trouble or damage)

    async def gpus(self, since_s: float, until_s: float, node: str | None, most: int) -> PastPoints:
        """Of one machine's last day by the minute, else by the hour. Raises HistoryFault."""
        await self.write(all_of_it=True)
        by_minutes = node is not None and until_s - since_s <= DAY_S + SLACK_S
        asked = PointsAsked(
            point_s=MINUTE_S if by_minutes else HOUR_S,
            since_s=since_s,
            until_s=until_s,
            node=node,
            most=most,
            open=self._open(),
        )
        told = await asyncio.to_thread(self._history.points, asked)
        self._look_for_damage()
        return PastPoints(point_s=asked.point_s, told=told)

    def _read(self, since_s: float, until_s: float, open: frozenset[str]) -> Remembered:
        if until_s - since_s <= MINUTES_KEPT_S + SLACK_S:
            sums = self._history.minutes(since_s=since_s // MINUTE_S * MINUTE_S, until_s=until_s)
        else:
            sums = self._history.hours(since_s=since_s // HOUR_S * HOUR_S, until_s=until_s)
        return Remembered(
            began_s=self._history.began_s(),
            sums=sums,
            busy=self._history.busy(since_s=since_s // HOUR_S * HOUR_S, until_s=until_s),
            phases=self._history.phases(since_s=since_s, until_s=until_s, open=open),
        )

    def _look_for_damage(self) -> None:
        """What counts as empty since it is no figure: told once, to whoever asks next and in the log."""
        found = self._history.damaged_rows()
        if found > self._damaged:
            new, self._damaged = found - self._damaged, found
            self._damage = f"{new} rows of it were damaged and count as empty"
            self._count_fault()
            log.warning("usage_history_damaged", rows=new)

    def _failed(self, trouble: str) -> None:
        self._count_fault()
        self._tell(trouble)

    def _tell(self, trouble: str) -> None:
        """Each trouble once, and that it is over."""
        if trouble and not self._trouble:
            log.warning("usage_history_fault", trouble=trouble, meanwhile="jobs go on, figures wait")
        elif self._trouble and not trouble:
            log.info("usage_history_fault_is_over")
        self._trouble = trouble


async def keep_writing(book: UsageBook, every_s: float = float(MINUTE_S)) -> None:
    """Also at once: what an owner took back while nobody was here is to go now."""
    while True:
        await book.write()
        await asyncio.sleep(every_s)
