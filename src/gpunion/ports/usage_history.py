"""Where the coordinator keeps how much was lent and used, minute by minute and then hour by hour.

None of it decides anything: a history that is damaged, full or gone costs figures and never a job.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

MINUTE_S = 60
HOUR_S = 3600
# Minutes are for looking into what happened lately, hours for the seasons of a campus.
MINUTES_KEPT_S = 7 * 86_400
HOURS_KEPT_S = 366 * 86_400


class HistoryFault(Exception):
    """It could not be read or written. Of what it should take it has taken nothing: give it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSum:
    """Of all machines of one lab together, over a minute or an hour that began at `at_s`."""

    at_s: int
    lab: str
    lent_gpu_s: float = 0.0  # of GPUs that guests could have or had
    used_gpu_s: float = 0.0  # of those that guests had
    departures: int = 0  # how often a machine was taken back or went


@dataclass(frozen=True, slots=True, kw_only=True)
class BusySum:
    """How much GPUs of one lab worked in an hour, as their machines saw it: GPU-seconds at full work."""

    at_s: int
    lab: str
    watched_gpu_s: float  # of GPUs that a driver was asked about, at work or not
    own_gpu_s: float  # where no guest was
    guest_gpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPoint:
    """One GPU over a minute or an hour that began at `at_s`; None: nobody saw it."""

    at_s: int
    node: str
    index: int
    uuid: str
    model: str
    seen_s: float  # how much of that time it was seen
    utilisation: float | None  # mean, 0 to 1; the rest is the most
    memory_share: float | None
    temperature_c: float | None
    power_w: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PointsAsked:
    """`open`: machines whose owners say `figures = "full"` now. What is left of others who said so before,
    since it could not be removed yet, is told to nobody."""

    point_s: int  # MINUTE_S or HOUR_S
    since_s: float
    until_s: float
    node: str | None = None  # None: of all
    most: int
    open: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PointsTold:
    """The oldest first. `since_s`: from then on it is all there is; later than asked for where more was there
    than may be told."""

    points: Sequence[GpuPoint]
    since_s: float
    left_out: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSince:
    """Since when a machine is in a phase, by its owner's leave (`figures = "full"`)."""

    at_s: float
    node: str
    phase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryBatch:
    """`sums` and `points` are of minutes. `forget`: machines whose owners took that leave back; `open`: all
    those whose owners give it. Of a machine that ever was open and is not any more nothing single stays."""

    sums: Sequence[UsageSum] = ()
    busy: Sequence[BusySum] = ()
    points: Sequence[GpuPoint] = ()
    phases: Sequence[PhaseSince] = ()
    forget: Collection[str] = ()
    open: Collection[str] = ()


class UsageHistory(Protocol):
    """All of it may raise HistoryFault, and nothing else."""

    def add(self, batch: HistoryBatch) -> None:
        """Adds to what is known: all or nothing."""
        ...

    def forget_old(self, *, now_s: float) -> None:
        """What is too old, or more than it may hold. To be called now and then."""
        ...

    def minutes(self, *, since_s: float, until_s: float) -> Sequence[UsageSum]: ...

    def hours(self, *, since_s: float, until_s: float) -> Sequence[UsageSum]: ...

    def busy(self, *, since_s: float, until_s: float) -> Sequence[BusySum]: ...

    def points(self, asked: PointsAsked) -> PointsTold: ...

    def phases(self, *, since_s: float, until_s: float, open: Collection[str]) -> Sequence[PhaseSince]:
        """Of machines that are open, each with the one that it was in when that time began."""
        ...

    def began_s(self) -> float | None:
        """The first moment it knows of."""
        ...

    def damaged_rows(self) -> int:
        """How many it has met that are no figures. They count as empty."""
        ...
