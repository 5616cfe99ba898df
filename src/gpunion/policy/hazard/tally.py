"""A node's history as of one moment, in the sums the estimates need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

from gpunion.policy.hazard.buckets import (
    AGES,
    BLOCK,
    BLOCK_OF_MERGED,
    BLOCKS,
    MERGED,
    MERGED_HOURS,
    WEEK_HOURS,
)
from gpunion.policy.hazard.history import NodeHistory

# A level follows the last weeks, but starts from the rate over all time, worth this many departures.
# Without it a node that leaves once a year would have forgotten its last departure.
LIFETIME_DEPARTURES = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    departures: list[float]  # by merged hour
    lent_s: list[float]
    full_departures: list[float]  # by hour of the week
    full_lent_s: list[float]
    aged_departures: list[float]  # by block of the week and age
    aged_lent_s: list[float]
    ever_departures: float
    ever_lent_s: float

    def by_age(self, shape: Sequence[float]) -> list[tuple[float, float]]:
        """For each class of age: departures, and seconds lent weighted with the week's shape."""
        in_block = self._shape_of_blocks(shape)
        return [
            (
                sum(self.aged_departures[age::AGES]),
                sumprod(in_block, self.aged_lent_s[age::AGES]),
            )
            for age in range(AGES)
        ]

    def aged_s(self, age_factor: Sequence[float]) -> list[float]:
        """Seconds lent in each merged hour, weighted with the effect of age."""
        in_block = self._age_of_blocks(age_factor)
        return [in_block[BLOCK_OF_MERGED[k]] * self.lent_s[k] for k in range(MERGED_HOURS)]

    def full_aged_s(self, age_factor: Sequence[float]) -> list[float]:
        in_block = self._age_of_blocks(age_factor)
        return [in_block[BLOCK[hour]] * self.full_lent_s[hour] for hour in range(WEEK_HOURS)]

    def _shape_of_blocks(self, shape: Sequence[float]) -> list[float]:
        shaped, plain = [0.0] * BLOCKS, [0.0] * BLOCKS
        for k, seconds in enumerate(self.lent_s):
            shaped[BLOCK_OF_MERGED[k]] += shape[k] * seconds
            plain[BLOCK_OF_MERGED[k]] += seconds
        return [_ratio(above, below) for above, below in zip(shaped, plain, strict=True)]

    def _age_of_blocks(self, age_factor: Sequence[float]) -> list[float]:
        cells = [self.aged_lent_s[first : first + AGES] for first in range(0, BLOCKS * AGES, AGES)]
        return [_ratio(sumprod(age_factor, of_block), sum(of_block)) for of_block in cells]


def tally(history: NodeHistory, now_s: float) -> Tally:
    fade = history.faded_by(now_s)
    departures, lent_s = [0.0] * MERGED_HOURS, [0.0] * MERGED_HOURS
    for hour in range(WEEK_HOURS):
        departures[MERGED[hour]] += fade * history.departures[hour]
        lent_s[MERGED[hour]] += fade * history.lent_s[hour]
    return Tally(
        departures=departures,
        lent_s=lent_s,
        full_departures=[fade * value for value in history.departures],
        full_lent_s=[fade * value for value in history.lent_s],
        aged_departures=[fade * value for value in history.aged_departures],
        aged_lent_s=[fade * value for value in history.aged_lent_s],
        ever_departures=float(history.ever_departures),
        ever_lent_s=history.ever_lent_s,
    )


def sumprod(one: Sequence[float], other: Sequence[float]) -> float:
    return float(sum(map(mul, one, other)))


def level_per_s(one: Tally, shaped_s: float, alpha: float, lent_s: float) -> float:
    """Departures per (weighted) second lent: recent ones, shrunk to all, shrunk to the fleet's."""
    recent_s = sum(one.lent_s)
    ever = (one.ever_departures + alpha) / (one.ever_lent_s * _ratio(shaped_s, recent_s) + lent_s)
    return (sum(one.departures) + LIFETIME_DEPARTURES) / (shaped_s + LIFETIME_DEPARTURES / ever)


def level_evidence(one: Tally, alpha: float) -> float:
    """How many departures a level rests on."""
    return sum(one.departures) + min(LIFETIME_DEPARTURES, one.ever_departures + alpha)


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0 else 1.0
