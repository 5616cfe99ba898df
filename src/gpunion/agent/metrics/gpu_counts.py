"""What is counted of this machine's GPUs, from look to look."""

from __future__ import annotations

from collections.abc import Callable

from gpunion.agent.metrics.busy_gpus import BusySums
from gpunion.agent.metrics.gpu_readings import GpuFigures
from gpunion.agent.metrics.guest_gpus import GuestGpus, Users
from gpunion.engine.agent.pure_agent import PureAgent
from gpunion.ports.gpus import Look


class GpuCounts:
    def __init__(self, station: Callable[[], PureAgent], figures: Callable[[], GpuFigures]) -> None:
        self.guests, self.busy = GuestGpus(station), BusySums(station)
        self._figures = figures

    def seen(self, look: Look, users: Users) -> None:
        self.guests.seen(look, users)
        self.busy.seen(look, users)
        self._figures().seen()
