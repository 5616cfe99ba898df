"""GPUs from the settings, seen by no driver: for laptops, tests and the demo. Named as such everywhere."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.resources import Gpu
from gpunion.ports.gpus import GpuDevice, Look
from gpunion.text import counted


class DeclaredGpus:
    def __init__(self, gpus: tuple[Gpu, ...], why: str = "") -> None:
        """`why`: what keeps a driver from being asked, where the owner would expect it to be."""
        self._gpus = tuple(replace(gpu, index=index, declared=True) for index, gpu in enumerate(gpus))
        self._why = why

    def describe(self) -> str:
        why = f" ({self._why})" if self._why else ""
        return f"{counted(len(self._gpus), 'GPU')} declared in the settings, not seen by a driver{why}"

    def inventory(self) -> tuple[Gpu, ...]:
        return self._gpus

    def device(self, index: int) -> GpuDevice | None:
        return None

    @property
    def watched(self) -> bool:
        return False

    async def look(self) -> Look:
        return Look(at_s=0.0, trouble="no driver is asked")

    async def close(self) -> None:
        return
