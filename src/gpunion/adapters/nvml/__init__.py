"""GPUs as NVIDIA's driver sees them, asked in a process of its own: a driver that hangs hangs alone."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gpunion.adapters.nvml.child import STAND_IN_VARIABLE
from gpunion.adapters.nvml.numbers import Numbers
from gpunion.adapters.nvml.probe import Probe, ProbeTrouble, ask_once
from gpunion.adapters.nvml.words import Card, cards
from gpunion.domain.resources import Gpu
from gpunion.ports.gpus import GpuDevice, GpuSight, Look
from gpunion.text import counted

__all__ = ["NvmlGpus", "ProbeTrouble", "driver_is_here", "find_gpus"]

CONTROL_NODE = "/dev/nvidiactl"
GONE = "it does not answer any more"


def driver_is_here() -> bool:
    """A cheap first look, so that machines without a card do not wait for one."""
    return os.path.exists(CONTROL_NODE) or STAND_IN_VARIABLE in os.environ


def find_gpus(speeds: Mapping[str, float] | None = None, memory: Path | None = None) -> NvmlGpus:
    """Asks the driver once. One that hangs now may answer later: its cards are found then.

    `memory`: a file that keeps every card's number over restarts of the agent, whose guests know only that.
    """
    trouble = ""
    found: list[Card] = []
    try:
        found = cards(ask_once())
    except ProbeTrouble as error:
        trouble = str(error)
    numbers = None if memory is None else Numbers(memory)
    return NvmlGpus(found, speeds=speeds, numbers=numbers, trouble=trouble)


class NvmlGpus:
    """A card keeps its number for as long as this agent lives; one that comes later gets the next."""

    def __init__(
        self,
        found: list[Card],
        *,
        speeds: Mapping[str, float] | None = None,
        probe: Probe | None = None,
        numbers: Numbers | None = None,
        trouble: str = "",
    ) -> None:
        """`speeds`: the owner's word on how fast a model is."""
        self._speeds = dict(speeds or {})
        self._probe = probe or Probe()
        self._numbers = numbers
        self._known: dict[str, Card] = {} if numbers is None else {c.uuid: c for c in numbers.read()}
        self._learn(found)
        self._last = replace(self._seen(found), trouble=trouble)

    def describe(self) -> str:
        trouble = f" ({self._last.trouble})" if self._last.trouble else ""
        return f"{counted(len(self._known), 'GPU')} seen by NVIDIA's driver{trouble}"

    def inventory(self) -> tuple[Gpu, ...]:
        return tuple(
            card.lent(index, self._speeds.get(card.model)) for index, card in enumerate(self._known.values())
        )

    def device(self, index: int) -> GpuDevice | None:
        for number, card in enumerate(self._known.values()):
            if number == index:
                return GpuDevice(index=index, uuid=card.uuid, nodes=card.nodes)
        return None

    @property
    def watched(self) -> bool:
        return True

    async def look(self) -> Look:
        try:
            found = cards(await self._probe.ask())
        except ProbeTrouble as trouble:
            self._last = replace(self._last, trouble=str(trouble))
            return self._last
        self._learn(found)
        self._last = self._seen(found)
        return self._last

    async def close(self) -> None:
        await self._probe.close()

    def _learn(self, found: list[Card]) -> None:
        more = any(card.uuid not in self._known for card in found)
        for card in found:
            self._known[card.uuid] = card  # a known one keeps its place
        if more and self._numbers is not None:
            self._numbers.write(self._known.values())

    def _seen(self, found: list[Card]) -> Look:
        now = {card.uuid: card.sight for card in found}
        sights = []
        for index, uuid in enumerate(self._known):
            sight = now.get(uuid) or GpuSight(index=index, uuid=uuid, gone=GONE)
            sights.append(replace(sight, index=index))
        return Look(at_s=time.monotonic(), gpus=tuple(sights), found=self.inventory())
