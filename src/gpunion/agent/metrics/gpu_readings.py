"""What is told of this machine's GPUs: to its owner everything, to the campus what its own guests do.

How busy a GPU is while its owner works on it says when they work. So unless the owner says otherwise a GPU's
figures leave the machine only while a guest is on it, and nothing of the owner's.

A driver's utilisation is that of its last moment, and a program that works in turns is busy at one look and
idle at the next. So the campus is told means of the last seconds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

from gpunion.agent.machine.gpu_users import GpuUser
from gpunion.agent.machine.gpu_watch import GpuWatch
from gpunion.domain.nodes.terms import FIGURES_FULL, Terms
from gpunion.domain.protocol.frames import GpuReading, GpuReadings
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.ports.gpus import GpuSight

MEANS_OF_S = 10.0  # as often as the campus is told


class GpuFigures:
    def __init__(self, station: PureAgent, watch: GpuWatch, terms: Callable[[], Terms]) -> None:
        """`terms`: what its owner says at this moment."""
        self._station = station
        self._watch = watch
        self._terms = terms
        self._lately: deque[tuple[float, GpuReading]] = deque()

    def seen(self) -> None:
        """After every look: keeps what would be told now, as long as means are of it."""
        at_s = self._watch.last.at_s
        while self._lately and self._lately[0][0] <= at_s - MEANS_OF_S:
            self._lately.popleft()
        self._lately.extend((at_s, reading) for reading in self._tellable())

    def for_the_campus(self) -> GpuReadings:
        return GpuReadings(gpus=tuple(self._with_means(reading) for reading in self._tellable()))

    def for_the_owner(self) -> tuple[GpuReading, ...]:
        """Nothing where nothing was seen anew: what was so before is no figure of now."""
        look = self._watch.last
        if look.trouble:
            return ()
        here = {gpu.index for gpu in self._station.facts.capacity.gpus if not gpu.declared}
        return tuple(_reading(sight) for sight in look.gpus if sight.index in here and not sight.gone)

    def _with_means(self, reading: GpuReading) -> GpuReading:
        since_s = self._watch.last.at_s - MEANS_OF_S
        lately = [before for at_s, before in self._lately if before.index == reading.index and at_s > since_s]
        return replace(
            reading,
            utilisation=_mean([before.utilisation for before in lately], reading.utilisation),
            power_w=_mean([before.power_w for before in lately], reading.power_w),
        )

    def _tellable(self) -> tuple[GpuReading, ...]:
        if self._terms().figures == FIGURES_FULL:
            return self.for_the_owner()
        lent = self._held_by_guests()
        users = self._watch.users
        return tuple(
            reading
            for reading in self.for_the_owner()
            if reading.index in lent and not _owner_works(users.get(reading.index, ()))
        )

    def _held_by_guests(self) -> set[int]:
        """A parked guest keeps its GPUs by name, and somebody else works on them."""
        guests = self._station.engine.state.guests.values()
        return {
            index
            for guest in guests
            if guest.living and guest.parking is None
            for index in guest.grant.gpu_indices
        }


def _owner_works(users: tuple[GpuUser, ...]) -> bool:
    return any(user.own_work for user in users)


def _reading(sight: GpuSight) -> GpuReading:
    return GpuReading(
        index=sight.index,
        uuid=sight.uuid,
        utilisation=_number(sight.utilisation),
        memory_used_bytes=sight.memory_used_bytes,
        temperature_c=_number(sight.temperature_c),
        power_w=_number(sight.power_w),
    )


def _mean(said: list[float | None], now: float | None) -> float | None:
    known = [value for value in said if value is not None]
    return fmean(known) if known else now


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
