"""Which GPUs this machine has, and what is seen of them.

A driver may hang, lose a card or refuse a question; a machine may have no driver at all. So everything that
is seen is optional, looking takes no longer than its limit, and what could not be seen again is shown as
stale instead of being made up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gpunion.domain.resources import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDevice:
    """How a program gets at one GPU: its name to CUDA, and the files it must be able to open."""

    index: int
    uuid: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that computes on a GPU. What only draws (a display server) is not one."""

    pid: int
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSight:
    """One GPU as it was last seen. None: the driver does not say."""

    index: int
    uuid: str = ""
    memory_used_bytes: int | None = None
    utilisation: float | None = None  # 0 to 1
    temperature_c: float | None = None
    power_w: float | None = None
    ecc_uncorrected: int | None = None  # since the driver was loaded
    xids: tuple[int, ...] = ()  # the driver's fault numbers, heard since we listen
    processes: tuple[GpuProcess, ...] | None = None
    gone: str = ""  # why nothing can be said of it any more; empty while it answers


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look showed. `trouble`: why it showed nothing new; the sights are then those of before."""

    at_s: float
    gpus: tuple[GpuSight, ...] = ()
    found: tuple[Gpu, ...] = ()  # as `inventory`, seen anew
    trouble: str = ""

    def of(self, index: int) -> GpuSight | None:
        return next((gpu for gpu in self.gpus if gpu.index == index), None)


class Gpus(Protocol):
    def describe(self) -> str:
        """One line for the owner: where this list comes from."""
        ...

    def inventory(self) -> tuple[Gpu, ...]:
        """Every GPU (or slice of one), numbered from 0 without gaps. Asked once when the agent starts."""
        ...

    def device(self, index: int) -> GpuDevice | None:
        """None: no driver has seen it, so there is nothing to open."""
        ...

    @property
    def watched(self) -> bool:
        """Whether looking shows anything. False where GPUs are only declared."""
        ...

    async def look(self) -> Look:
        """What is to be seen now. Never raises, never takes much longer than its limit, may be cancelled."""
        ...

    async def close(self) -> None:
        """Nothing of the looking is left behind. May be called again."""
        ...
