"""How much this machine's GPUs work, for their owner and for guests, summed until an hour of it is told.

A sum of an hour says how much a campus gains by lending and not when anybody sat at their desk.
"""

from __future__ import annotations

from collections.abc import Callable

from gpunion.agent.metrics.guest_gpus import GAP_MAX_S, Users
from gpunion.domain.protocol.frames import BusyGpus
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.ports.gpus import Look

TOLD_EVERY_S = 3600.0


class BusySums:
    def __init__(self, station: Callable[[], PureAgent]) -> None:
        self._station = station
        self._looked_s: float | None = None
        self._for_s = self._watched = self._own = self._guests = 0.0

    def seen(self, look: Look, users: Users) -> None:
        """After every look that showed something new."""
        before_s, self._looked_s = self._looked_s, look.at_s
        passed_s = 0.0 if before_s is None else look.at_s - before_s
        if not 0.0 < passed_s <= GAP_MAX_S:
            return
        self._for_s += passed_s
        lent = self._held_by_guests()
        for sight in look.gpus:
            if sight.gone or sight.utilisation is None:
                continue
            self._watched += passed_s
            busy_s = passed_s * min(1.0, max(0.0, sight.utilisation))
            owner_works = any(user.own_work for user in users.get(sight.index, ()))
            if sight.index in lent and not owner_works:
                self._guests += busy_s
            else:
                self._own += busy_s

    def due(self) -> BusyGpus | None:
        """Once an hour was seen: what it came to. Told once."""
        if self._for_s < TOLD_EVERY_S:
            return None
        told = BusyGpus(
            for_s=self._for_s,
            watched_gpu_s=self._watched,
            own_gpu_s=self._own,
            guest_gpu_s=self._guests,
        )
        self._for_s = self._watched = self._own = self._guests = 0.0
        return told

    def _held_by_guests(self) -> set[int]:
        guests = self._station().engine.state.guests.values()
        at_work = (guest for guest in guests if guest.living and guest.parking is None)
        return {index for guest in at_work for index in guest.grant.gpu_indices}
