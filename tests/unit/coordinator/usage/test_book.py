"""The book of figures beside the loop: what it writes, and what a history that fails costs."""

from __future__ import annotations

from collections.abc import Sequence

from gpunion.coordinator.usage.book import UsageBook
from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import Node
from gpunion.domain.protocol.frames import BusyGpus, GpuReading, GpuReadings
from gpunion.domain.resources import GIB, Gpu
from gpunion.engine.coordinator.state import CampusState
from gpunion.ports.usage_history import (
    BusySum,
    GpuPoint,
    HistoryBatch,
    HistoryFault,
    PhaseSince,
    UsageSum,
)
from tests.builders.values import a_node, facts

NOW_S = 1_000_000.0


class FakeHistory:
    """Keeps batches; takes nothing while its disk is full."""

    def __init__(self) -> None:
        self.full = False
        self.batches: list[HistoryBatch] = []

    def add(self, batch: HistoryBatch, *, now_s: float) -> None:
        if self.full:
            raise HistoryFault("usage.db: database or disk is full")
        self.batches.append(batch)

    def minutes(self, *, since_s: float) -> Sequence[UsageSum]:
        return [one for batch in self.batches for one in batch.sums]

    hours = minutes

    def busy(self, *, since_s: float) -> Sequence[BusySum]:
        return [one for batch in self.batches for one in batch.busy]

    def gpu_minutes(self, *, since_s: float, node: str) -> Sequence[GpuPoint]:
        return [one for batch in self.batches for one in batch.points if one.node == node]

    def gpu_hours(self, *, since_s: float, node: str | None = None) -> Sequence[GpuPoint]:
        return [one for batch in self.batches for one in batch.points]

    def phases(self, *, since_s: float) -> Sequence[PhaseSince]:
        return []

    def began_s(self) -> float | None:
        return None


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
    told = await scene.book.remembered(NOW_S)
    assert "disk is full" in told.trouble
    scene.history.full = False
    await scene.book.write(all_of_it=True)
    remembered = await scene.book.remembered(NOW_S)
    assert remembered.trouble == ""
    assert sum(one.lent_gpu_s for one in remembered.sums) == 1200.0
    assert sum(one.own_gpu_s for one in remembered.busy) == 600.0
    points = await scene.book.gpus(NOW_S, "alpha")
    assert len(points) == 20
    assert scene.faults == 21


async def test_what_a_machine_says_that_nobody_knows_is_nothing() -> None:
    scene = Scene()
    scene.says("stranger", 1)
    scene.now_s += 120.0
    assert await scene.book.gpus(NOW_S, None) == []


async def test_a_thousand_machines_of_eight_gpus_have_their_points() -> None:
    names = [f"node-{number}" for number in range(1000)]
    scene = Scene(*(a_machine(name, 8) for name in names))
    for _ in range(2):
        for name in names:
            scene.says(name, 8)
        scene.now_s += 60.0
    points = await scene.book.gpus(NOW_S, None)
    assert len(points) == 16_000
