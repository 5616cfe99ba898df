"""What a coordinator remembers of its nodes' comings and goings, as records.

A `Lending` belongs to one node and is a few kilobytes: the time it is lent right now, the times that ended
since the last lesson, and what earlier lessons left behind. `CampusMemory` is what belongs to nobody alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.signs import Signs

CAMPUS = "campus"  # the id of the one memory there is


@dataclass(frozen=True, slots=True, kw_only=True)
class LentSpan:
    """A time a node was lent without a break. `departed`: it ended because the node was taken away."""

    from_s: float
    to_s: float
    departed: bool
    free_since_s: float

    def __post_init__(self) -> None:
        if not (isfinite(self.from_s) and self.free_since_s <= self.from_s <= self.to_s < float("inf")):
            raise ValueError(f"a node is free, then lent, then taken: {self}")

    def within(self, from_s: float, to_s: float) -> LentSpan | None:
        """The part of it in [from, to], or nothing. It departs where it ends, so only the last part does."""
        if self.to_s <= from_s or self.from_s >= to_s:
            return None
        return LentSpan(
            from_s=max(self.from_s, from_s),
            to_s=min(self.to_s, to_s),
            departed=self.departed and self.to_s <= to_s,
            free_since_s=self.free_since_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    """A forecast that waits for its outcome: the chance of a departure within the calibration's horizon."""

    made_s: float
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationBin:
    """Forecasts of a like chance: how many, the sum of their chances, and how often it came true."""

    forecasts: int = 0
    foretold: float = 0.0
    departed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LendingMemory:
    """The sums of `policy/hazard` for one node; empty before the first lesson."""

    as_of_s: float = 0.0
    lent_s: tuple[float, ...] = ()
    departures: tuple[float, ...] = ()
    aged_lent_s: tuple[float, ...] = ()
    aged_departures: tuple[float, ...] = ()
    ever_lent_s: float = 0.0
    ever_departures: int = 0
    judged_s: float = 0.0
    judged_departures: float = 0.0
    nats: tuple[float, ...] = ()  # by answer, in their order
    squares: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lending:
    id: NodeId
    counted_s: float  # time lent up to here is in the memory
    free_since_s: float | None = None  # lent since; None while it is not
    recent: tuple[LentSpan, ...] = ()
    foretold: Foretold | None = None
    memory: LendingMemory = field(default_factory=LendingMemory)
    calibration: tuple[CalibrationBin, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SignTally:
    """Over all machines and times at which exactly these signs were shown: departures, and those expected."""

    shown: Signs
    departures: float
    expected: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CampusMemory:
    """When lessons were drawn, how owners of this campus announce that they leave, what their signs mean."""

    id: str = CAMPUS
    began_s: float
    learned_s: float | None = None
    lesson_s: float | None = None  # a lesson is under way: nodes counted before this moment are still due
    unannounced: int = 0
    notices_s: tuple[float, ...] = ()
    signs: tuple[SignTally, ...] = ()
    signs_as_of_s: float = 0.0
