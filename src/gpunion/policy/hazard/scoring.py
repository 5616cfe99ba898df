"""How good was a forecast? Nats per departure, Brier scores, and whether 20 % means one time in five."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log

from gpunion.policy.hazard.history import LentSpan, departure_cell
from gpunion.policy.hazard.profile import RateProfile

DECILES = 10


def log_likelihood(profile: RateProfile, spans: Iterable[LentSpan]) -> float:
    """Of a Poisson process with the profile's piecewise constant rate: log-rates at the departures, less the
    departures expected over the time lent."""
    return sum(_span_nats(profile, span) for span in spans)


def _span_nats(profile: RateProfile, span: LentSpan) -> float:
    nats = -profile.expected(span.from_s, span.to_s, free_since_s=span.free_since_s)
    if span.departed:
        hour, age = departure_cell(span, profile.utc_offset_s)
        nats += log(profile.rate_per_s[hour] * profile.age_factor[age])
    return nats


def best_constant_nats(departures: int, lent_s: float) -> float:
    """The log-likelihood of the constant rate one would choose knowing how it all ended."""
    return departures * (log(departures / lent_s) - 1) if departures and lent_s > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """`chance` of a departure within a horizon, and whether it came."""

    chance: float
    constant_chance: float
    departed: bool


def forecast(
    profile: RateProfile, constant: RateProfile, span: LentSpan, at_s: float, horizon_s: float
) -> Forecast | None:
    """A forecast made at a moment of a span, or nothing where nobody can say how it would have ended."""
    ends_in_s = span.to_s - at_s
    if ends_in_s < horizon_s and not span.departed:
        return None
    since_s = span.free_since_s
    return Forecast(
        chance=1 - profile.survival(at_s, horizon_s, free_since_s=since_s),
        constant_chance=1 - constant.survival(at_s, horizon_s, free_since_s=since_s),
        departed=ends_in_s <= horizon_s,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Brier:
    """Mean squared error of the chances; `skill` is the part of the constant's error that is gone."""

    forecasts: int
    score: float
    constant_score: float

    @property
    def skill(self) -> float:
        return 1 - self.score / self.constant_score if self.constant_score > 0 else 0.0


def brier(forecasts: Sequence[Forecast]) -> Brier:
    count = max(1, len(forecasts))
    return Brier(
        forecasts=len(forecasts),
        score=sum((one.chance - one.departed) ** 2 for one in forecasts) / count,
        constant_score=sum((one.constant_chance - one.departed) ** 2 for one in forecasts) / count,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decile:
    """A tenth of the forecasts, from the lowest chances to the highest."""

    forecasts: int
    foretold: float
    seen: float


def reliability(forecasts: Sequence[Forecast]) -> tuple[Decile, ...]:
    ordered = sorted(forecasts, key=lambda one: one.chance)
    edges = [len(ordered) * tenth // DECILES for tenth in range(DECILES + 1)]
    groups = [ordered[begin:end] for begin, end in pairwise(edges) if end > begin]
    return tuple(
        Decile(
            forecasts=len(group),
            foretold=sum(one.chance for one in group) / len(group),
            seen=sum(one.departed for one in group) / len(group),
        )
        for group in groups
    )
