"""How long does a piece of so many steps take, and how many steps fit into a window?

    length(n) = begin + stretch * (n * step + z * deviation * sqrt(n)) + save + guard

`begin` and `save` are quantiles of what they took. With few timed steps `z` is Cantelli's, which assumes
nothing of how they are distributed; with many it is the normal distribution's. `stretch` follows how often
pieces took longer than foretold (`calibration`), so that the risk holds whatever the distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, sqrt

from gpunion.domain.jobs.job import SaveCost
from gpunion.domain.jobs.profile import Profile

# Of a hundred pieces this many may take longer than foretold.
RISK = 0.05
CANTELLI_Z = sqrt((1 - RISK) / RISK)
NORMAL_Z = 1.645
# From so many timed steps on their mean and deviation are known well enough for the normal distribution.
MANY_STEPS = 30
# What passes between two machines until an end is acted on.
GUARD_S = 2.0
# Beginning and saving may be this part of a window: a shorter one is not worth coming for.
SHORTEST_OVERHEADS = 5.0
# Memory is rounded up by this: what a driver keeps for itself differs from card to card.
MEMORY_SLACK = 1.05
# So many of the latest pieces are never believed to have been larger than usual: programs grow.
LAST_PEAKS = 5
# From so many samples on the order statistic at this risk exists.
PEAKS_LEAST = ceil(1 / RISK) - 1
# So often out of memory in a row, and nothing learned is trusted any more.
OUT_OF_MEMORY_MOST = 2
# No sum of steps is larger: a step that takes no time at all is one that was never timed.
STEPS_MOST = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """Of one job, with what it has been seen to need. `step_s`: 0 where no step was ever timed."""

    begin_s: float
    save_s: float
    step_s: float  # at reference speed, stretched
    noise_s: float  # of one step, times z, stretched
    mean_s: float  # of a step, as it is

    @property
    def overhead_s(self) -> float:
        return self.begin_s + self.save_s

    def foretold_s(self, steps: int, speed: float, *, begun: bool = False) -> float:
        """`begun`: it runs there already, and has only to be saved."""
        work_s = (steps * self.step_s + self.noise_s * sqrt(steps)) / speed
        return (0.0 if begun else self.begin_s) + work_s + self.save_s + GUARD_S

    def room_s(self, length_s: float, *, begun: bool = False) -> float:
        """What of a window is left for work."""
        return length_s - (0.0 if begun else self.begin_s) - self.save_s - GUARD_S

    def steps_within(self, length_s: float, speed: float, safe_every: int = 1, *, begun: bool = False) -> int:
        """The most that fit, up to a safe point; 0 where none does, or nobody knows how long one takes."""
        room_s = self.room_s(length_s, begun=begun) * speed
        if room_s <= 0 or self.step_s <= 0:
            return 0
        root = (sqrt(self.noise_s**2 + 4 * self.step_s * room_s) - self.noise_s) / (2 * self.step_s)
        steps = safe_every * (floor(min(STEPS_MOST, root * root)) // safe_every)
        while steps > 0 and self.foretold_s(steps, speed, begun=begun) > length_s:
            steps -= safe_every  # by what rounding gave too much
        return max(0, steps)


def sizing_of(profile: Profile, cost: SaveCost) -> Sizing:
    z = NORMAL_Z if profile.steps >= MANY_STEPS else CANTELLI_Z
    return Sizing(
        begin_s=upper_s(profile.begins_s, cost.restart_s),
        save_s=upper_s(profile.saves_s, cost.save_s),
        step_s=profile.stretch * profile.step_s,
        noise_s=profile.stretch * z * profile.step_sd_s,
        mean_s=profile.step_s,
    )


def upper_s(seen_s: Sequence[float], usual_s: float) -> float:
    """What the next one takes at most, at the risk we take. With few seen, more than any of them."""
    if not seen_s:
        return 2 * usual_s
    rank = ceil((len(seen_s) + 1) * (1 - RISK))
    if rank <= len(seen_s):
        return sorted(seen_s)[rank - 1]
    return max(seen_s) * (1 + 1 / len(seen_s))


def shortest_s(sizing: Sizing, wanted_s: float | None = None) -> float:
    """No window shorter than this is of use to it: it would mostly come and go."""
    return max(SHORTEST_OVERHEADS * sizing.overhead_s + GUARD_S, wanted_s or 0.0)


def memory_bytes(profile: Profile, declared_bytes: int, *, learned: bool = True) -> int:
    """What each GPU of its next piece must have."""
    peaks = profile.peaks_bytes
    if not learned or len(peaks) < PEAKS_LEAST or profile.out_of_memory >= OUT_OF_MEMORY_MOST:
        return declared_bytes
    return min(declared_bytes, max(quantile_bytes(peaks), profile.floor_bytes))


def quantile_bytes(peaks: Sequence[int]) -> int:
    """More than the next piece needs, at the risk we take, if it is like one of these."""
    rank = min(len(peaks), ceil((len(peaks) + 1) * (1 - RISK)))
    return ceil(MEMORY_SLACK * max(sorted(peaks)[rank - 1], *peaks[-LAST_PEAKS:]))
