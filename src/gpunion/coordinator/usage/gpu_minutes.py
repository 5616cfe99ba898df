"""What machines say of their GPUs, put together by the minute until the history takes it."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import Node
from gpunion.domain.protocol.frames import GpuReading, GpuReadings
from gpunion.domain.resources import Gpu
from gpunion.ports.usage_history import MINUTE_S, GpuPoint

# A word is of the time since the one before, as far as that came in time; else of the usual pause.
GOOD_FOR_S = 30.0
TOLD_EVERY_S = 10.0
# Where the history takes nothing: so many points wait for it. A quarter of an hour of a thousand machines.
WAITING_MAX = 120_000

_Key = tuple[int, NodeId, int]


@dataclass(slots=True)
class _Minute:
    gpu: Gpu
    uuid: str
    seen_s: float = 0.0
    busy_s: float = 0.0
    weighed_s: float = 0.0  # of it, with a utilisation
    memory_bytes: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None


class GpuMinutes:
    def __init__(self) -> None:
        self._minutes: dict[_Key, _Minute] = {}
        self._heard_s: dict[NodeId, float] = {}
        self._waiting: list[GpuPoint] = []

    def heard(self, now_s: float, node: Node, readings: GpuReadings) -> None:
        passed_s = max(0.0, now_s - self._heard_s.get(node.id, -math.inf))
        if passed_s > GOOD_FOR_S:
            passed_s = TOLD_EVERY_S  # it was out of sight: nobody knows what was before this word
        self._heard_s[node.id] = now_s
        known = {gpu.index: gpu for gpu in node.facts.capacity.gpus if not gpu.declared}
        at_s = int(now_s // MINUTE_S) * MINUTE_S
        for reading in readings.gpus:
            gpu = known.get(reading.index)
            if gpu is None:
                continue
            key = (at_s, node.id, reading.index)
            if key not in self._minutes and len(self._minutes) >= WAITING_MAX:
                continue
            _add(self._minutes.setdefault(key, _Minute(gpu, reading.uuid)), reading, passed_s)

    def take(self, now_s: float) -> list[GpuPoint]:
        """Of minutes that are over. One that is not is told whole, later."""
        this_minute = int(now_s // MINUTE_S) * MINUTE_S
        over = [key for key in self._minutes if key[0] < this_minute]
        points = [_point(key, self._minutes.pop(key)) for key in over]
        taken, self._waiting = [*self._waiting, *points], []
        return taken

    def forget(self, node_ids: Collection[str]) -> None:
        """Their owners take back that it may be kept; what was told by then has their own work in it."""
        if not node_ids:
            return
        gone = [key for key in self._minutes if key[1] in node_ids]
        for key in gone:
            del self._minutes[key]
        self._waiting = [point for point in self._waiting if point.node not in node_ids]

    def put_back(self, points: Iterable[GpuPoint]) -> None:
        """Nobody took them; as many of the newest as there is room for."""
        self._waiting = [*self._waiting, *points][-WAITING_MAX:]


def _add(minute: _Minute, reading: GpuReading, passed_s: float) -> None:
    minute.uuid = reading.uuid
    minute.seen_s = min(float(MINUTE_S), minute.seen_s + passed_s)
    if reading.utilisation is not None:
        minute.busy_s += passed_s * reading.utilisation
        minute.weighed_s += passed_s
    minute.memory_bytes = _most(minute.memory_bytes, reading.memory_used_bytes)
    minute.temperature_c = _most(minute.temperature_c, reading.temperature_c)
    minute.power_w = _most(minute.power_w, reading.power_w)


def _point(key: _Key, minute: _Minute) -> GpuPoint:
    at_s, node_id, index = key
    whole_bytes = minute.gpu.memory_bytes
    used = minute.memory_bytes
    return GpuPoint(
        at_s=at_s,
        node=node_id,
        index=index,
        uuid=minute.uuid,
        model=minute.gpu.model,
        seen_s=minute.seen_s,
        utilisation=minute.busy_s / minute.weighed_s if minute.weighed_s else None,
        memory_share=None if used is None or not whole_bytes else min(1.0, used / whole_bytes),
        temperature_c=minute.temperature_c,
        power_w=minute.power_w,
    )


def _most(one: float | None, other: float | None) -> float | None:
    return max((each for each in (one, other) if each is not None), default=None)
