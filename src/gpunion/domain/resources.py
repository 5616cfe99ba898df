"""What nodes have and what jobs ask for."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1024**3
MIB = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU of a node. `speed` is relative to the campus's reference card (1.0)."""

    index: int
    model: str
    memory_bytes: int
    speed: float = 1.0
    declared: bool = True  # from settings, not seen by a driver: named as such wherever it shows


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What a node lends when nobody is on it."""

    gpus: tuple[Gpu, ...]
    cpus: float
    memory_bytes: int
    uplink_bps: float

    @property
    def speed(self) -> float:
        """A gang runs at the pace of its slowest GPU."""
        return min((gpu.speed for gpu in self.gpus), default=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What one run of a job needs."""

    gpus: int = 1
    vram_bytes: int = 0
    models: tuple[str, ...] = ()
    exclude_models: tuple[str, ...] = ()
    alike: str = ""  # of this very model and no other: what a driver brings back needs a card like it
    cpus: float = 1.0
    memory_bytes: int = GIB
    network: bool = False  # it has to reach the places that a node's owner allows


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What one run of a job got: which GPUs, and how much of the rest."""

    gpu_indices: tuple[int, ...]
    cpus: float
    memory_bytes: int
    network: bool = False
