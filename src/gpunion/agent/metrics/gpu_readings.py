"""What is told of this machine's GPUs: to its owner everything, to the campus what its own guests do.

How busy a GPU is while its owner works on it says when they work. So unless the owner says otherwise a GPU's
figures leave the machine only while a guest is on it, and nothing of the owner's.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from gpunion.agent.machine.gpu_users import GpuUser
from gpunion.agent.machine.gpu_watch import GpuWatch
from gpunion.domain.nodes.terms import FIGURES_FULL, Terms
from gpunion.domain.protocol.frames import GpuReading, GpuReadings
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.ports.gpus import GpuSight


class GpuFigures:
    def __init__(self, station: PureAgent, watch: GpuWatch, terms: Callable[[], Terms]) -> None:
        """`terms`: what its owner says at this moment."""
        self._station = station
        self._watch = watch
        self._terms = terms

    def for_the_campus(self) -> GpuReadings:
        if self._terms().figures == FIGURES_FULL:
            return GpuReadings(gpus=self.for_the_owner())
        lent = self._held_by_guests()
        users = self._watch.users
        return GpuReadings(
            gpus=tuple(
                reading
                for reading in self.for_the_owner()
                if reading.index in lent and not _owner_works(users.get(reading.index, ()))
            )
        )

    def for_the_owner(self) -> tuple[GpuReading, ...]:
        """Nothing where nothing was seen anew: what was so before is no figure of now."""
        look = self._watch.last
        if look.trouble:
            return ()
        here = {gpu.index for gpu in self._station.facts.capacity.gpus if not gpu.declared}
        return tuple(_reading(sight) for sight in look.gpus if sight.index in here and not sight.gone)

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


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
