"""A node's rate through the week, ready to be asked: any survival is a few look-ups in a prefix sum.

    h(t, a, x) = b[hour of week] * g(age) * factor(live signs)

The integral of `b` over a span is a difference of two prefix sums; `g` changes at most ten times on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import accumulate
from math import exp

from gpunion.policy.hazard.buckets import (
    HOUR_S,
    WEEK_HOURS,
    WEEK_S,
    age_class,
    age_ends_s,
    ages_of,
    hour_of_week,
    week_position_s,
)
from gpunion.policy.hazard.constant import upper_ratio
from gpunion.policy.hazard.signs import SPEAK_FOR_S


class Answer(StrEnum):
    """Where a node's rate came from; the later ones know less and are wrong less often."""

    OWN = "own"  # its own bins, shrunk to the fleet's
    FLEET = "fleet"  # the fleet's week at its own level
    FLAT = "flat"  # no week, only the effect of age
    CONSTANT = "constant"


@dataclass(frozen=True, kw_only=True)
class RateProfile:
    answer: Answer
    utc_offset_s: float
    rate_per_s: tuple[float, ...]
    # How many departures' worth of evidence is behind each rate (the shape of its Gamma posterior).
    evidence: tuple[float, ...]
    age_factor: tuple[float, ...]

    def rate_at(self, now_s: float, *, free_since_s: float, factor: float = 1.0) -> float:
        hour = hour_of_week(now_s, self.utc_offset_s)
        return self.rate_per_s[hour] * self.age_factor[age_class(now_s - free_since_s)] * factor

    def upper_rate_at(self, now_s: float, *, free_since_s: float, factor: float = 1.0) -> float:
        """Eighty percent sure not to be exceeded: what admission asks."""
        hour = hour_of_week(now_s, self.utc_offset_s)
        age = age_class(now_s - free_since_s)
        return self._upper_per_s[hour] * self.age_factor[age] * factor

    def expected(self, from_s: float, to_s: float, *, free_since_s: float) -> float:
        """Departures to expect in the span: the integral of the rate."""
        return self._integral(self._prefix, from_s, to_s, free_since_s)

    def survival(
        self,
        now_s: float,
        horizon_s: float,
        *,
        free_since_s: float,
        factor: float = 1.0,
        hard_end_s: float | None = None,
    ) -> float:
        """The chance to be still lent after the horizon. An announced end is certain, not a hazard."""
        return self._survival(self._prefix, now_s, horizon_s, free_since_s, factor, hard_end_s)

    def lower_survival(
        self,
        now_s: float,
        horizon_s: float,
        *,
        free_since_s: float,
        factor: float = 1.0,
        hard_end_s: float | None = None,
    ) -> float:
        """The same with the upper credible rate."""
        return self._survival(self._upper_prefix, now_s, horizon_s, free_since_s, factor, hard_end_s)

    def _survival(
        self,
        prefix: Sequence[float],
        now_s: float,
        horizon_s: float,
        free_since_s: float,
        factor: float,
        hard_end_s: float | None,
    ) -> float:
        if hard_end_s is not None and now_s + horizon_s > hard_end_s:
            return 0.0
        due = self._integral(prefix, now_s, now_s + horizon_s, free_since_s)
        if factor != 1.0:
            near_s = now_s + min(horizon_s, SPEAK_FOR_S)
            due += (factor - 1.0) * self._integral(prefix, now_s, near_s, free_since_s)
        return exp(-due)

    def _integral(self, prefix: Sequence[float], from_s: float, to_s: float, free_since_s: float) -> float:
        age = age_class(from_s - free_since_s)
        if from_s < to_s <= free_since_s + age_ends_s(age):  # most spans are within one class
            return self.age_factor[age] * self._weekly(prefix, from_s, to_s)
        return sum(
            self.age_factor[age] * self._weekly(prefix, age_from_s, age_to_s)
            for age, age_from_s, age_to_s in ages_of(from_s, to_s, free_since_s)
        )

    def _weekly(self, prefix: Sequence[float], from_s: float, to_s: float) -> float:
        """Both ends are looked up in one week; whole weeks between them count as wholes."""
        begin_s = week_position_s(from_s, self.utc_offset_s)
        weeks, end_s = divmod(begin_s + (to_s - from_s), WEEK_S)
        value = weeks * prefix[WEEK_HOURS] + _at(prefix, end_s) - _at(prefix, begin_s)
        return max(0.0, value)

    @cached_property
    def _prefix(self) -> tuple[float, ...]:
        return (0.0, *accumulate(rate * HOUR_S for rate in self.rate_per_s))

    @cached_property
    def _upper_per_s(self) -> tuple[float, ...]:
        return tuple(
            rate * upper_ratio(evidence)
            for rate, evidence in zip(self.rate_per_s, self.evidence, strict=True)
        )

    @cached_property
    def _upper_prefix(self) -> tuple[float, ...]:
        return (0.0, *accumulate(rate * HOUR_S for rate in self._upper_per_s))


def _at(prefix: Sequence[float], position_s: float) -> float:
    hour = min(WEEK_HOURS - 1, int(position_s // HOUR_S))
    part = position_s / HOUR_S - hour
    return prefix[hour] + part * (prefix[hour + 1] - prefix[hour])
