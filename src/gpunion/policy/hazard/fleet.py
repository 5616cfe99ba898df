"""What all nodes together teach about one: the shape of the week, the effect of age, how much nodes differ.

Nodes of one campus differ in *how often* they leave far more than in *when*: on real partitions the rates
span two orders of magnitude. Shrinking a quiet node's rate to the fleet's would hide its week under somebody
else's level. So the level is the node's own, and what is shared is the shape around it: with `e` the
departures expected of a node in a bin from its level alone, `d ~ Poisson(theta e)`, `theta ~ Gamma(alpha_k,
beta_k)`. Both parameters of a bin come from moments over the fleet: its mean is the bin's shape; the relative
spread between nodes is estimated over all bins, since one bin has too few nodes to show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpunion.policy.hazard.buckets import AGES, MERGED, MERGED_HOURS, NO_AGE_EFFECT, WEEK_HOURS, WEEK_S
from gpunion.policy.hazard.constant import PRIOR_DEPARTURES, PRIOR_EXPOSURE_S
from gpunion.policy.hazard.history import NodeHistory
from gpunion.policy.hazard.tally import Tally, level_per_s, sumprod, tally

# A node's own 168 bins are used once every bin has been seen about four times.
FULL_WEEK_LENT_S = 4 * WEEK_S

AGE_LEAST, AGE_MOST = 1 / 3, 3.0
# An age class nobody has left in is as good as average until about this many departures were expected.
AGE_PRIOR_DEPARTURES = 2.0
# The estimates of shape, age and level lean on each other; they settle within a few rounds.
ROUNDS = 4
SPREAD_LEAST, SPREAD_MOST = 0.02, 5.0
# Below this the variance between bins is noise, above it a week of zeros.
BIN_VARIANCE_LEAST, BIN_VARIANCE_MOST = 0.01, 10.0
SHAPE_LEAST = 1e-3
LEVEL_ALPHA_LEAST, LEVEL_ALPHA_MOST = 0.1, 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WeekPrior:
    """`theta_k ~ Gamma(alpha, beta_k)` with mean `shape_k`: alpha = 1 / spread, beta_k = alpha / shape_k."""

    shape: tuple[float, ...]
    spread: float = 1.0

    @property
    def alpha(self) -> float:
        return 1.0 / self.spread


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPrior:
    nodes: int = 0
    level_departures: float = PRIOR_DEPARTURES
    level_lent_s: float = PRIOR_EXPOSURE_S
    age_factor: tuple[float, ...] = NO_AGE_EFFECT
    merged: WeekPrior = field(default_factory=lambda: WeekPrior(shape=(1.0,) * MERGED_HOURS))
    full: WeekPrior = field(default_factory=lambda: WeekPrior(shape=(1.0,) * WEEK_HOURS))


def fit_fleet(histories: Sequence[NodeHistory], now_s: float, *, age_effect: bool = True) -> FleetPrior:
    """The prior a node of this fleet deserves. Looks at nothing but what is already in the histories."""
    tallies = [tally(history, now_s) for history in histories if history.ever_lent_s > 0]
    if not tallies:
        return FleetPrior()
    alpha, lent_s = _level_prior(tallies)
    age_factor = NO_AGE_EFFECT
    merged = WeekPrior(shape=(1.0,) * MERGED_HOURS)
    for _ in range(ROUNDS):
        if age_effect:
            age_factor = _age_factor(tallies, merged.shape, alpha, lent_s)
        expected = [_expected(one, age_factor, merged.shape, alpha, lent_s) for one in tallies]
        merged = _week_prior([one.departures for one in tallies], expected, merged.spread)
    return FleetPrior(
        nodes=len(tallies),
        level_departures=alpha,
        level_lent_s=lent_s,
        age_factor=age_factor,
        merged=merged,
        full=_full_prior(tallies, age_factor, merged, alpha, lent_s),
    )


def _level_prior(tallies: Sequence[Tally]) -> tuple[float, float]:
    """Gamma parameters of the nodes' levels, by moments with the Poisson noise taken out."""
    departures = sum(one.ever_departures for one in tallies)
    lent_s = sum(one.ever_lent_s for one in tallies)
    mean = (departures + PRIOR_DEPARTURES) / (lent_s + PRIOR_EXPOSURE_S)
    excess = sum((one.ever_departures - mean * one.ever_lent_s) ** 2 for one in tallies) - departures
    # alpha is one over the relative variance between nodes.
    alpha = sum((mean * one.ever_lent_s) ** 2 for one in tallies) / max(excess, 1e-12)
    alpha = min(LEVEL_ALPHA_MOST, max(LEVEL_ALPHA_LEAST, alpha))
    return alpha, alpha / mean


def _age_factor(
    tallies: Sequence[Tally], shape: tuple[float, ...], alpha: float, lent_s: float
) -> tuple[float, ...]:
    """Observed over expected departures in each class of age: the increments of a pooled Nelson-Aalen
    estimate, measured against what level and hour already explain."""
    observed, expected = [AGE_PRIOR_DEPARTURES] * AGES, [AGE_PRIOR_DEPARTURES] * AGES
    for one in tallies:
        level = level_per_s(one, sumprod(shape, one.lent_s), alpha, lent_s)
        for age, (departures, shaped_s) in enumerate(one.by_age(shape)):
            observed[age] += departures
            expected[age] += level * shaped_s
    return tuple(
        min(AGE_MOST, max(AGE_LEAST, seen / due)) for seen, due in zip(observed, expected, strict=True)
    )


def _expected(
    one: Tally, age_factor: tuple[float, ...], shape: tuple[float, ...], alpha: float, lent_s: float
) -> list[float]:
    """Departures due in each bin from the node's level and the effect of age alone."""
    aged_s = one.aged_s(age_factor)
    level = level_per_s(one, sumprod(shape, aged_s), alpha, lent_s)
    return [level * seconds for seconds in aged_s]


def _week_prior(
    departures: Sequence[Sequence[float]], expected: Sequence[Sequence[float]], spread: float
) -> WeekPrior:
    """Random-effects means per bin: a node that leaves a thousand times says little more about the *others*
    than one that leaves fifty times, so its weight saturates at 1 / spread. A bin's mean is itself shrunk
    to 1 by how much the bins really differ."""
    bins = range(len(expected[0]))
    weights = [sum(due[k] / (1 + spread * due[k]) for due in expected) for k in bins]
    means = [
        sum(seen[k] / (1 + spread * due[k]) for seen, due in zip(departures, expected, strict=True))
        / max(weights[k], 1e-12)
        for k in bins
    ]
    variance = _bin_variance(means, weights)
    shape = tuple(
        max(SHAPE_LEAST, (means[k] * weights[k] + 1 / variance) / (weights[k] + 1 / variance)) for k in bins
    )
    excess = scale = 0.0
    for seen, due in zip(departures, expected, strict=True):
        for k in bins:
            likely = due[k] * shape[k]
            excess += (seen[k] - likely) ** 2 - likely
            scale += likely**2
    found = excess / scale if scale > 0 else spread
    return WeekPrior(shape=shape, spread=min(SPREAD_MOST, max(SPREAD_LEAST, found)))


def _bin_variance(means: Sequence[float], weights: Sequence[float]) -> float:
    total = sum(weights)
    if total <= 0:
        return BIN_VARIANCE_LEAST
    found = sum(
        weight * (mean - 1) ** 2 - mean for mean, weight in zip(means, weights, strict=True) if weight > 0
    )
    return min(BIN_VARIANCE_MOST, max(BIN_VARIANCE_LEAST, found / total))


def _full_prior(
    tallies: Sequence[Tally],
    age_factor: tuple[float, ...],
    merged: WeekPrior,
    alpha: float,
    lent_s: float,
) -> WeekPrior:
    """The 168 bins as deviations from the merged ones, learned from the nodes lent long enough."""
    spread_out = tuple(merged.shape[MERGED[hour]] for hour in range(WEEK_HOURS))
    old = [one for one in tallies if one.ever_lent_s >= FULL_WEEK_LENT_S]
    if not old:
        return WeekPrior(shape=spread_out, spread=merged.spread)
    departures, expected = [], []
    for one in old:
        level = level_per_s(one, sumprod(merged.shape, one.aged_s(age_factor)), alpha, lent_s)
        aged_s = one.full_aged_s(age_factor)
        departures.append(one.full_departures)
        expected.append([level * spread_out[hour] * aged_s[hour] for hour in range(WEEK_HOURS)])
    around = _week_prior(departures, expected, merged.spread)
    shape = tuple(base * more for base, more in zip(spread_out, around.shape, strict=True))
    return WeekPrior(shape=shape, spread=around.spread)
