"""What machines say of their GPUs: the newest word of each, in memory, forgotten with its connection.

What a GPU is called is its machine's word too, and every new name is a series for good where figures are
kept: a GPU has one name an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import Node
from gpunion.domain.protocol.frames import GpuReading, GpuReadings
from gpunion.domain.resources import Gpu
from gpunion.ports.gpu_series import gpu_samples
from gpunion.ports.metrics import Sample

# Three words missed: what was so then is no figure of now.
FRESH_S = 30.0
NAMED_FOR_S = 3600.0


@dataclass(frozen=True, slots=True)
class _Name:
    uuid: str
    model: str
    since_s: float


class Hardware:
    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._told: dict[NodeId, tuple[float, tuple[GpuReading, ...]]] = {}
        self._names: dict[tuple[NodeId, int], _Name] = {}

    def take(self, node_id: NodeId, readings: GpuReadings) -> None:
        self._told[node_id] = self._now_s(), readings.gpus

    def forget(self, node_id: NodeId) -> None:
        self._told.pop(node_id, None)

    def samples(self, nodes: Mapping[NodeId, Node]) -> Iterator[Sample]:
        """What is so now, worked out as it is read: thousands of GPUs are not for an event loop."""
        fresh_s = self._now_s() - FRESH_S
        told = [
            self._as_named(node_id, nodes[node_id].facts.capacity.gpus, readings)
            for node_id, (told_s, readings) in self._told.items()
            if told_s >= fresh_s and node_id in nodes
        ]
        return (sample for one in told for sample in gpu_samples(*one))

    def _as_named(
        self, node_id: NodeId, gpus: tuple[Gpu, ...], readings: tuple[GpuReading, ...]
    ) -> tuple[NodeId, list[Gpu], list[GpuReading]]:
        """Those of it that are called as they were."""
        known = {gpu.index: gpu for gpu in gpus}
        named = [one for one in readings if one.index in known]
        for one in named:
            self._name(node_id, one, known[one.index])
        names = {one.index: self._names[node_id, one.index] for one in named}
        return (
            node_id,
            [replace(gpu, model=names[gpu.index].model) for gpu in gpus if gpu.index in names],
            [one for one in named if one.uuid == names[one.index].uuid],
        )

    def _name(self, node_id: NodeId, reading: GpuReading, gpu: Gpu) -> None:
        name, now_s = self._names.get((node_id, reading.index)), self._now_s()
        if name is None or now_s - name.since_s >= NAMED_FOR_S:
            self._names[node_id, reading.index] = _Name(reading.uuid, gpu.model, now_s)
