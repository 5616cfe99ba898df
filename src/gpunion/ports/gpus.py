"""Which GPUs this machine lends."""

from __future__ import annotations

from typing import Protocol

from gpunion.domain.resources import Gpu


class Gpus(Protocol):
    def describe(self) -> str:
        """One line for the owner: where this list comes from."""
        ...

    def inventory(self) -> tuple[Gpu, ...]:
        """Every GPU, numbered from 0 without gaps. Asked once when the agent starts."""
        ...
