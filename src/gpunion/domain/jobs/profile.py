"""What is known of how a job's program runs: times of its steps, its memory, what coming and going costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

# Enough for an order statistic at 5 % risk many times over; older ones say little of what comes next.
PEAKS_MOST = 128
# Of how long it took to begin and to save: the latest say most.
TIMES_MOST = 20
# So many programs of users are remembered, however many there are.
RELIABILITIES_MOST = 1024
PROGRAM_WORDS, PROGRAM_DIGITS = 2, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Of one job, from all its pieces. Times of steps are those on a reference GPU.

    `steps`: how many steps the mean and the deviation rest on; it fades, so that a program that changes is
    followed. A program that counts no steps has seconds of work in their place.
    """

    steps: float = 0.0
    step_s: float = 0.0
    step_sd_s: float = 0.0
    worst_step_s: float = 0.0
    begins_s: tuple[float, ...] = ()  # from the order to start to its first step, the newest last
    saves_s: tuple[float, ...] = ()  # from being asked to the save captured
    peaks_bytes: tuple[int, ...] = ()  # of its memory on a GPU, one a piece or report, the newest last
    stretch: float = 1.0  # what foretold lengths are multiplied with, so that few pieces take longer
    floor_bytes: int = 0  # it was out of memory with less than this
    out_of_memory: int = 0  # how often in a row; from the second on it gets what it declared
    pieces: int = 0
    misses: int = 0  # pieces whose last save was not captured in time
    worked_s: float = 0.0  # in all its pieces, with coming up and saving
    overhead_s: float = 0.0  # of that, coming up and saving


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one piece was like, told with its end. None and 0: not known."""

    steps: int = 0  # timed ones
    step_s: float = 0.0  # at the speed it ran at
    step_sd_s: float = 0.0
    worst_step_s: float = 0.0
    begin_s: float | None = None
    save_s: float | None = None
    peak_bytes: int = 0
    foretold_s: float | None = None  # how long the piece was to take
    took_s: float | None = None  # how long it took, the save captured; None: it was not captured in time
    short_of_memory: bool = False  # its program ended for want of memory on its GPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """How far what was promised for a user's program came true. A record of one of a bounded number of
    places: who comes when all are taken is given the one that was written longest ago."""

    id: str  # of its place
    user: str
    program: str
    rho: float = 1.0
    pieces: int = 0
    as_of_s: float = 0.0


def program_of(image: str | None, command: Sequence[str]) -> str:
    """A digest of what runs: its image, its program and the first thing that is given, which of `python` is
    the script. Options, and all that follows, change from run to run."""
    words = [word for word in command if not word.startswith("-")][:PROGRAM_WORDS]
    return sha256("\0".join((image or "", *words)).encode()).hexdigest()[:PROGRAM_DIGITS]
