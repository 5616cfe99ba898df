"""What guests do with the GPUs they hold, added up from look to look: told once, at a guest's end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpunion.agent.machine.gpu_users import GpuUser
from gpunion.domain.ids import RunId
from gpunion.domain.jobs.guest import Guest, GuestPhase
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.ports.gpus import GpuSight, Look

# Longer than a few looks apart: nobody saw what was in between.
GAP_MAX_S = 60.0

Users = dict[int, tuple[GpuUser, ...]]


@dataclass(slots=True)
class GpuUse:
    """Of all GPUs of one guest."""

    watched_s: float = 0.0
    busy_s: float = 0.0
    memory_bytes: int | None = None  # the most at once on one of them

    @property
    def utilisation(self) -> float | None:
        return self.busy_s / self.watched_s if self.watched_s else None


class GuestGpus:
    def __init__(self, station: Callable[[], PureAgent]) -> None:
        self._station = station
        self._use: dict[RunId, GpuUse] = {}
        self._looked_s: float | None = None

    def seen(self, look: Look, users: Users) -> None:
        """After every look that showed something new."""
        before_s, self._looked_s = self._looked_s, look.at_s
        passed_s = 0.0 if before_s is None else look.at_s - before_s
        if not 0.0 < passed_s <= GAP_MAX_S:
            passed_s = 0.0
        guests = self._station().engine.state.guests
        for gone in self._use.keys() - guests.keys():
            del self._use[gone]
        for guest in guests.values():
            if guest.living and guest.phase is not GuestPhase.STARTING and guest.parking is None:
                use = self._use.setdefault(guest.run_id, GpuUse())
                for index in guest.grant.gpu_indices:
                    _add(use, guest, look.of(index), users.get(index, ()), passed_s)

    def of(self, run_id: RunId) -> GpuUse | None:
        """None: nobody saw it."""
        return self._use.get(run_id)


def _add(
    use: GpuUse, guest: Guest, sight: GpuSight | None, users: tuple[GpuUser, ...], passed_s: float
) -> None:
    if sight is None or sight.gone:
        return
    if sight.utilisation is not None:
        use.watched_s += passed_s
        use.busy_s += passed_s * min(1.0, max(0.0, sight.utilisation))
    taken_bytes = _memory_bytes(guest, sight, users)
    if taken_bytes is not None:
        use.memory_bytes = max(use.memory_bytes or 0, taken_bytes)


def _memory_bytes(guest: Guest, sight: GpuSight, users: tuple[GpuUser, ...]) -> int | None:
    """Of its processes, where the driver tells them apart; else of the whole card while it is there alone."""
    own = [user.memory_bytes for user in users if user.run_id == guest.run_id]
    known = [size for size in own if size is not None]
    if len(known) == len(own):
        return sum(known) if own else None
    alone = len(own) == len(users)
    return sight.memory_used_bytes if alone else None
