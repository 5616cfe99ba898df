"""Four answers to one question, from the most particular to the most cautious, each as a profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpunion.policy.hazard.buckets import MERGED, MERGED_HOURS, NO_AGE_EFFECT, WEEK_HOURS
from gpunion.policy.hazard.fleet import FULL_WEEK_LENT_S, FleetPrior
from gpunion.policy.hazard.history import NodeHistory
from gpunion.policy.hazard.profile import Answer, RateProfile
from gpunion.policy.hazard.tally import Tally, level_evidence, level_per_s, sumprod, tally

# No machine has been seen to stay for ten thousand years; a rate of zero would end every logarithm.
RATE_LEAST_PER_S = 1e-12

FLAT_WEEK = (1.0,) * MERGED_HOURS


class _Known(NamedTuple):
    """A node's past beside the fleet's, with the effect of age taken into account."""

    tally: Tally
    prior: FleetPrior
    aged_s: list[float]

    @property
    def is_old(self) -> bool:
        """Whether its own 168 bins are worth looking at."""
        return self.tally.ever_lent_s >= FULL_WEEK_LENT_S

    @property
    def doubt(self) -> float:
        """The relative variance of its level."""
        return 1 / level_evidence(self.tally, self.prior.level_departures)

    def level(self, shape: Sequence[float]) -> float:
        shaped_s = sumprod(shape, self.aged_s)
        return level_per_s(self.tally, shaped_s, self.prior.level_departures, self.prior.level_lent_s)


class _Rates(NamedTuple):
    per_s: Sequence[float]  # by hour of the week
    evidence: Sequence[float]


def profile_of(history: NodeHistory, prior: FleetPrior, now_s: float, answer: Answer) -> RateProfile:
    return _profile(history, _known(history, prior, now_s), answer)


def profiles_of(history: NodeHistory, prior: FleetPrior, now_s: float) -> dict[Answer, RateProfile]:
    known = _known(history, prior, now_s)
    return {answer: _profile(history, known, answer) for answer in Answer}


def _known(history: NodeHistory, prior: FleetPrior, now_s: float) -> _Known:
    one = tally(history, now_s)
    return _Known(one, prior, one.aged_s(prior.age_factor))


def _profile(history: NodeHistory, known: _Known, answer: Answer) -> RateProfile:
    match answer:
        case Answer.OWN:
            rates = _own_full(known) if known.is_old else _own_merged(known)
        case Answer.FLEET:
            rates = _fleet(known)
        case Answer.FLAT:
            rates = _Rates([known.level(FLAT_WEEK)] * WEEK_HOURS, [1 / known.doubt] * WEEK_HOURS)
        case Answer.CONSTANT:
            rates = _constant(known)
    return RateProfile(
        answer=answer,
        utc_offset_s=history.utc_offset_s,
        rate_per_s=tuple([max(RATE_LEAST_PER_S, rate) for rate in rates.per_s]),
        evidence=tuple(rates.evidence),
        age_factor=NO_AGE_EFFECT if answer is Answer.CONSTANT else known.prior.age_factor,
    )


def _own_merged(known: _Known) -> _Rates:
    """`(d + alpha) / (e + beta)` in each bin, around the node's level."""
    prior, departures = known.prior.merged, known.tally.departures
    level, alpha = known.level(prior.shape), prior.alpha
    theta = [
        (departures[k] + alpha) / (level * known.aged_s[k] + alpha / prior.shape[k])
        for k in range(MERGED_HOURS)
    ]
    # The shrunk shape explains the past a little differently; the level has to fit it.
    level, doubt = known.level(theta), known.doubt
    evidence = [1 / (doubt + 1 / (alpha + departures[k])) for k in range(MERGED_HOURS)]
    return _Rates(_spread_out([level * value for value in theta]), _spread_out(evidence))


def _own_full(known: _Known) -> _Rates:
    prior, departures = known.prior.full, known.tally.full_departures
    aged_s = known.tally.full_aged_s(known.prior.age_factor)
    level, alpha, doubt = known.level(known.prior.merged.shape), prior.alpha, known.doubt
    return _Rates(
        [
            level * (departures[hour] + alpha) / (level * aged_s[hour] + alpha / prior.shape[hour])
            for hour in range(WEEK_HOURS)
        ],
        [1 / (doubt + 1 / (alpha + departures[hour])) for hour in range(WEEK_HOURS)],
    )


def _fleet(known: _Known) -> _Rates:
    prior = known.prior.merged
    week = known.prior.full.shape if known.is_old else _spread_out(prior.shape)
    level = known.level(prior.shape)
    return _Rates([level * shape for shape in week], [1 / (prior.spread + known.doubt)] * WEEK_HOURS)


def _constant(known: _Known) -> _Rates:
    """Every departure over every second lent: what we want to be better than."""
    departures = known.tally.ever_departures + known.prior.level_departures
    lent_s = known.tally.ever_lent_s + known.prior.level_lent_s
    return _Rates([departures / lent_s] * WEEK_HOURS, [departures] * WEEK_HOURS)


def _spread_out(merged: Sequence[float]) -> list[float]:
    return [merged[hour] for hour in MERGED]
