"""What the traces say, in our words: demand, counts, log-ins, lifetimes, failures, jobs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """From this moment a group uses so many of its own GPUs (or nodes)."""

    pool: str
    at_s: float
    total: float
    running: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Supply:
    """From this moment so many nodes can be had."""

    unit: str
    at_s: float
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange:
    unit: str
    at_s: float
    node: str
    added: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogIn:
    unit: str
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """A machine that was lent once; `taken` back by its provider, or given up by its user."""

    unit: str
    from_s: float
    lifetime_s: float
    taken: bool
    utc_offset_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DownTime:
    system: str
    node: str
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """`gpu_share`: how much of each of its GPUs it needs. `start_s` is None where the trace knows no queue,
    `duration_s` where the job never ran."""

    id: str
    group: str
    submit_s: float
    start_s: float | None
    duration_s: float | None
    gpus: int
    gpu_share: float = 1.0
    gpu_models: tuple[str, ...] = ()
    cpus: float | None = None
    memory_bytes: int | None = None
