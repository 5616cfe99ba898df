"""GPUs from the settings, seen by no driver: for laptops, tests and the demo. Named as such everywhere."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.resources import Gpu


class DeclaredGpus:
    def __init__(self, gpus: tuple[Gpu, ...]) -> None:
        self._gpus = tuple(replace(gpu, index=index, declared=True) for index, gpu in enumerate(gpus))

    def describe(self) -> str:
        return f"{len(self._gpus)} GPU(s) declared in the settings, not seen by a driver"

    def inventory(self) -> tuple[Gpu, ...]:
        return self._gpus
