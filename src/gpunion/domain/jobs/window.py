"""A window: a GPU, or several of one machine, until a moment; and the piece of a job's work cut to fit it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from gpunion.domain.ids import JobId, NodeId

# What a job may bid for one window: more lengths than these change no clearing.
VARIANTS_MOST = 4


class WindowEnd(StrEnum):
    """Why a window ends when it does."""

    KNOWN_END = "known_end"  # its owner's calendar or hours have the machine then
    PROMISED = "promised"  # a job that needs several GPUs at once begins there then
    GANG = "gang"  # a gang begins there then
    TURN = "turn"  # others wait
    SURVIVAL = "survival"  # it is not likely to be lent for longer
    OPEN = "open"  # nobody waits for it: as long as that is so

    @property
    def hard(self) -> bool:
        """Whether somebody is kept waiting by whoever stays longer."""
        return self in _HARD


_HARD = frozenset({WindowEnd.KNOWN_END, WindowEnd.PROMISED, WindowEnd.GANG})


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Derived from what is known whenever it is offered; never stored."""

    node_id: NodeId
    gpus: tuple[int, ...]
    vram_bytes: int  # of the smallest of them
    speed: float  # of the slowest of them
    starts_s: float
    ends_s: float | None  # None: open
    end: WindowEnd
    stays: float = 1.0  # the chance that nobody takes it before it ends

    @property
    def length_s(self) -> float | None:
        return None if self.ends_s is None else max(0.0, self.ends_s - self.starts_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What a job could do in a window. `steps`: 0 where nobody knows how long one takes: as many as fit."""

    job_id: JobId
    window: int  # which of those offered
    steps: int
    useful_s: float  # of work, at the speed of the window's GPUs
    length_s: float  # with coming up and saving, at the risk we take
    vram_bytes: int
    finishes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Award:
    job_id: JobId
    window: int
    variant: Variant


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjob:
    """What a run is to do before its window ends. Both ends of the wire have it."""

    ends_s: float | None
    hard: bool
    end: WindowEnd
    steps: int = 0
    length_s: float = 0.0
    vram_bytes: int = 0
    save_s: float = 0.0  # what its last save may take
    number: int = 1  # of this job's pieces
    safe_every: int = 1  # it stops by itself after so many steps, or a multiple of them
    # What it may take of each GPU's memory, where that is less than it asked for; 0: as much as it asked for.
    # Nobody decides by it, so no record of what was decided has it.
    limit_bytes: int = field(default=0, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A place for a job that needs several GPUs at once. It counts as taken, and is never put off."""

    node_id: NodeId
    gpus: tuple[int, ...]
    by_s: float
