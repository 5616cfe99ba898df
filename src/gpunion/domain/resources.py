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
    compute_capability: str = ""  # like "8.6", as its maker numbers what it can do; "": not known
    cuda: str = ""  # the highest version of CUDA that its driver supports, like "12.4"; "": not known
    driver: str = ""
    card: str = ""  # of a slice: the card it is cut from; "": it is a whole one
    profile: str = ""  # of a slice: its shape in the words of its maker, like "1g.10gb"


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
    compute_capability: str = ""  # a range, like ">=8.0"; "": any
    cuda: str = ""  # a range that the highest version of its driver has to be in; "": any
    alike: str = ""  # of this very model and no other: what a driver brings back needs a card like it
    cpus: float = 1.0
    memory_bytes: int = GIB
    network: bool = False  # it has to reach the places that a node's owner allows
    whole_gpus: bool = False  # no slices of cards: what a driver dumps are whole ones

    @property
    def takes_slices(self) -> bool:
        """Slices do not talk to each other, so who needs several GPUs takes none."""
        return self.gpus <= 1 and not self.whole_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What one run of a job got: which GPUs, and how much of the rest."""

    gpu_indices: tuple[int, ...]
    cpus: float
    memory_bytes: int
    network: bool = False
