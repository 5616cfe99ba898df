"""The book of figures beside the loop: what it writes, and what a history that fails costs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from gpunion.coordinator.usage.book import Remembered, UsageBook, keep_writing
from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import Node
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.commit import Commit
from gpunion.domain.protocol.decision import Decision
from gpunion.domain.protocol.events import NodeHeard
from gpunion.domain.protocol.frames import BusyGpus, GpuReading, GpuReadings
from gpunion.domain.resources import GIB, Gpu
from gpunion.engine.coordinator.state import CampusState
from gpunion.ports.usage_history import (
    BusySum,
    GpuPoint,
    HistoryBatch,
    HistoryFault,
    PhaseSince,
    PointsAsked,
    PointsTold,
    UsageSum,
)
from tests.builders.values import a_node, facts

NOW_S = 1_000_000.0
HOUR_S = 3600.0


class FakeHistory:
    """Keeps batches; takes nothing while its disk is full."""

    def __init__(self) -> None:
        self.full = False
        self.cannot_forget = False
        self.bug: Exception | None = None
        self.damaged = 0
        self.forgot = 0
        self.batches: list[HistoryBatch] = []
        self.asked: list[str | PointsAsked] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def add(self, batch: HistoryBatch) -> None:
        self.meanwhile()
        if self.bug is not None:
            raise self.bug
        if self.full:
            raise HistoryFault("usage.db: database or disk is full")
        self.batches.append(batch)

    def forget_old(self, *, now_s: float) -> None:
        self.forgot += 1
        if self.cannot_forget:
            raise HistoryFault("usage.db: database is locked")

    def minutes(self, *, since_s: float, until_s: float) -> Sequence[UsageSum]:
        self.asked.append("minutes")
        return [one for batch in self.batches for one in batch.sums]

    def hours(self, *, since_s: float, until_s: float) -> Sequence[UsageSum]:
        self.asked.append("hours")
        return []

    def busy(self, *, since_s: float, until_s: float) -> Sequence[BusySum]:
        return [one for batch in self.batches for one in batch.busy]

    def points(self, asked: PointsAsked) -> PointsTold:
        self.asked.append(asked)
        found = [one for batch in self.batches for one in batch.points if asked.node in (None, one.node)]
        return PointsTold(points=found, since_s=asked.since_s, left_out=False)

    def phases(self, *, since_s: float, until_s: float, open: Collection[str]) -> Sequence[PhaseSince]:
        return []

    def began_s(self) -> float | None:
        return None

    def damaged_rows(self) -> int:
        return self.damaged


def a_machine(name: str, gpus: int) -> Node:
    cards = tuple(
        Gpu(index=index, model="A100", memory_bytes=40 * GIB, declared=False) for index in range(gpus)
    )
    return a_node(name, of=facts(lab="vision", gpus=cards))


class Scene:
    def __init__(self, *machines: Node) -> None:
        self.now_s = NOW_S
        self.history = FakeHistory()
        self.faults = 0
        self.state = CampusState.from_records(machines)
        self.book = UsageBook(self.history, lambda: self.state, lambda: self.now_s, self._fault)

    def _fault(self) -> None:
        self.faults += 1

    def says(self, name: str, gpus: int, utilisation: float = 0.5) -> None:
        readings = (
            GpuReading(index=index, uuid=f"{name}-{index}", utilisation=utilisation) for index in range(gpus)
        )
        self.book.heard(NodeId(name), GpuReadings(gpus=tuple(readings)))

    async def remembers(self, for_s: float = HOUR_S) -> Remembered:
        return await self.book.remembered(self.now_s - for_s, self.now_s)

    async def points(self, node: str | None = None, for_s: float = HOUR_S) -> Sequence[GpuPoint]:
        past = await self.book.gpus(self.now_s - for_s, self.now_s, node, 50_000)
        return past.told.points

    def owner_says(self, figures: str, name: str = "alpha") -> None:
        node = self.state.nodes[NodeId(name)]
        node = replace(node, facts=replace(node.facts, terms=Terms(figures=figures)))
        self.state.put(node)
        event = NodeHeard(node_id=node.id)
        self.book.committed(Commit(at_s=self.now_s, event=event, decision=Decision(changes=(node,))))


async def test_a_full_disk_costs_nothing_once_there_is_room_again() -> None:
    scene = Scene(a_machine("alpha", 1))
    scene.history.full = True
    for _ in range(20):
        scene.says("alpha", 1)
        scene.now_s += 60.0
        scene.book.heard(
            NodeId("alpha"), BusyGpus(for_s=60.0, watched_gpu_s=60.0, own_gpu_s=30.0, guest_gpu_s=0.0)
        )
        await scene.book.write()
    assert (scene.faults, scene.history.batches) == (20, [])
    assert "disk is full" in (await scene.remembers()).trouble
    scene.history.full = False
    await scene.book.write(all_of_it=True)
    remembered = await scene.remembers()
    assert remembered.trouble == ""
    assert sum(one.lent_gpu_s for one in remembered.sums) == 1200.0
    assert sum(one.own_gpu_s for one in remembered.busy) == 600.0
    assert len(await scene.points("alpha")) == 20
    assert scene.faults == 21


async def test_what_a_machine_says_that_nobody_knows_is_nothing() -> None:
    scene = Scene()
    scene.says("stranger", 1)
    scene.now_s += 120.0
    assert await scene.points() == []


async def test_a_thousand_machines_of_eight_gpus_have_their_points() -> None:
    names = [f"node-{number}" for number in range(1000)]
    scene = Scene(*(a_machine(name, 8) for name in names))
    for _ in range(2):
        for name in names:
            scene.says(name, 8)
        scene.now_s += 60.0
    assert len(await scene.points()) == 16_000


async def test_trouble_with_what_is_old_doubles_nothing_and_is_tried_again() -> None:
    scene = Scene(a_machine("alpha", 1))
    scene.history.cannot_forget = True
    for _ in range(3):
        scene.now_s += 60.0
        await scene.book.write()
    assert sum(one.lent_gpu_s for batch in scene.history.batches for one in batch.sums) == 180.0
    assert (scene.faults, scene.history.forgot) == (3, 3)
    scene.history.cannot_forget = False
    assert (await scene.remembers()).trouble == ""
    assert scene.history.forgot == 4


async def test_how_fast_it_forgets_does_not_depend_on_who_asks() -> None:
    scene = Scene(a_machine("alpha", 1))
    for _ in range(5):
        await scene.remembers()
    assert scene.history.forgot == 1


async def test_a_bug_of_the_history_ends_no_writing_and_is_told() -> None:
    scene = Scene(a_machine("alpha", 1))
    scene.history.bug = TypeError("a bytes-like object is required")
    writing = asyncio.create_task(keep_writing(scene.book, 0.0))
    while scene.faults < 3:
        await asyncio.sleep(0.0)
    scene.now_s += 60.0
    assert "a bytes-like object" in (await scene.remembers()).trouble
    scene.history.bug = None
    while not scene.history.batches:
        await asyncio.sleep(0.0)
    assert not writing.done()
    writing.cancel()
    assert sum(one.lent_gpu_s for batch in scene.history.batches for one in batch.sums) == 60.0


async def test_what_an_owner_took_back_while_nobody_was_here_goes_at_once() -> None:
    scene = Scene(a_machine("alpha", 1), a_machine("beta", 1))
    scene.owner_says("full", "beta")
    writing = asyncio.create_task(keep_writing(scene.book))
    while not scene.history.batches:
        await asyncio.sleep(0.0)
    writing.cancel()
    assert scene.history.batches[0].open == {"beta"}


async def test_rows_that_were_damaged_are_told_once() -> None:
    scene = Scene(a_machine("alpha", 1))
    scene.history.damaged = 2
    await scene.book.write()
    await scene.book.write()
    assert (await scene.remembers()).trouble == "2 rows of it were damaged and count as empty"
    assert (await scene.remembers()).trouble == ""
    assert scene.faults == 1


async def test_exactly_a_day_and_exactly_a_week_are_told_by_the_minute() -> None:
    """However long the question has been on its way."""
    scene = Scene(a_machine("alpha", 1))
    week_s = 7 * 24 * HOUR_S
    for for_s, node in ((24 * HOUR_S, "alpha"), (25 * HOUR_S, "alpha"), (HOUR_S, None)):
        since_s, until_s = scene.now_s - for_s, scene.now_s
        scene.now_s += 3.0
        await scene.book.gpus(since_s, until_s, node, 5)
    for for_s in (week_s, week_s + HOUR_S):
        since_s, until_s = scene.now_s - for_s, scene.now_s
        scene.now_s += 3.0
        await scene.book.remembered(since_s, until_s)
    told = [one if isinstance(one, str) else one.point_s for one in scene.history.asked]
    assert told == [60, 3600, 3600, "minutes", "hours"]


async def test_what_an_owner_takes_back_while_it_is_being_written_does_not_come_again() -> None:
    scene = Scene(a_machine("alpha", 1))
    scene.owner_says("full")
    scene.says("alpha", 1)
    scene.now_s += 60.0
    scene.history.full = True
    scene.history.meanwhile = lambda: scene.owner_says("sums")
    await scene.book.write(all_of_it=True)
    scene.history.full = False
    await scene.book.write(all_of_it=True)
    [batch] = scene.history.batches
    assert (batch.phases, batch.points, list(batch.forget), batch.open) == ([], [], ["alpha"], frozenset())
