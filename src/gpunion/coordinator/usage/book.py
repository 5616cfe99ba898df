"""The meter beside the loop, and the history that it is written to once a minute."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
    UsageHistory,
    UsageSum,
)

from .busy_hours import BusyHours
from .gpu_minutes import GpuMinutes
from .meter import Meter
from .open_machines import OpenMachines

log = structlog.get_logger("gpunion.coordinator")

# A row of GPUs' figures has an hour in it and is written anew each time: not for every minute.
POINTS_EVERY_S = 600.0
DAY_S = 24.0 * HOUR_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What the history says of a time; `began_s`: it knows nothing before."""

    began_s: float | None = None
    sums: Sequence[UsageSum] = ()
    busy: Sequence[BusySum] = ()
    phases: Sequence[PhaseSince] = ()
    trouble: str = ""


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
        self._trouble = ""
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
            self._meter.changed(commit.at_s, self._state(), changed)
            self._machines.changed(commit.at_s, self._state(), changed)
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
        """What was counted so far. Where the history does not take it, it waits in memory."""
        async with self._writing:
            now_s = self._now_s()
            batch = self._batch(now_s, all_of_it)
            try:
                await asyncio.to_thread(self._history.add, batch, now_s=now_s)
            except HistoryFault as fault:
                self._put_back(batch)
                self._count_fault()
                self._tell(str(fault))
            else:
                self._tell("")

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
        )

    def _put_back(self, batch: HistoryBatch) -> None:
        self._meter.put_back(batch.sums)
        self._busy.put_back(batch.busy)
        self._gpus.put_back(batch.points)
        self._machines.put_back(batch.phases, batch.forget)

    async def remembered(self, since_s: float) -> Remembered:
        """By the minute as far as minutes are kept, else by the hour, from the hour on that has it."""
        await self.write()
        try:
            return await asyncio.to_thread(self._read, since_s)
        except HistoryFault as fault:
            return Remembered(trouble=str(fault))

    async def gpus(self, since_s: float, node: str | None) -> Sequence[GpuPoint]:
        """Of one machine's last day by the minute, else by the hour. Raises HistoryFault."""
        await self.write(all_of_it=True)
        if node is not None and since_s >= self._now_s() - DAY_S:
            return await asyncio.to_thread(self._history.gpu_minutes, since_s=since_s, node=node)
        return await asyncio.to_thread(self._history.gpu_hours, since_s=since_s, node=node)

    def _read(self, since_s: float) -> Remembered:
        by_minutes = since_s >= self._now_s() - MINUTES_KEPT_S
        if by_minutes:
            sums = self._history.minutes(since_s=since_s // MINUTE_S * MINUTE_S)
        else:
            sums = self._history.hours(since_s=since_s // HOUR_S * HOUR_S)
        return Remembered(
            began_s=self._history.began_s(),
            sums=sums,
            busy=self._history.busy(since_s=since_s // HOUR_S * HOUR_S),
            phases=self._history.phases(since_s=since_s),
            trouble=self._trouble,
        )

    def _tell(self, trouble: str) -> None:
        """Each trouble once, and that it is over."""
        if trouble and not self._trouble:
            log.warning("usage_history_fault", trouble=trouble, meanwhile="jobs go on, figures wait")
        elif self._trouble and not trouble:
            log.info("usage_history_fault_is_over")
        self._trouble = trouble


async def keep_writing(book: UsageBook, every_s: float = float(MINUTE_S)) -> None:
    while True:
        await asyncio.sleep(every_s)
        await book.write()
