"""Made-up owners for the tests of the hazard: nobody's real times."""

from __future__ import annotations

import random
from itertools import pairwise

from gpunion.policy.hazard.buckets import DAY_S, HOUR_S, hour_of_week
from gpunion.policy.hazard.history import LentSpan

# A Monday, 00:00.
MONDAY_S = 4 * DAY_S


def a_span(
    from_h: float, hours: float, *, departed: bool = True, free_since_h: float | None = None
) -> LentSpan:
    """Hours count from Monday 00:00."""
    from_s = MONDAY_S + from_h * HOUR_S
    free_since_s = from_s if free_since_h is None else MONDAY_S + free_since_h * HOUR_S
    return LentSpan(from_s=from_s, to_s=from_s + hours * HOUR_S, departed=departed, free_since_s=free_since_s)


def office_owner(seed: int, days: int, a_day: float = 6.0) -> list[LentSpan]:
    """Takes the machine back at random moments, all of them between nine and six on weekdays."""
    chance = random.Random(seed)
    times_s = [MONDAY_S]
    for minute in range(days * 24 * 60):
        at_s = MONDAY_S + minute * 60.0
        hour = hour_of_week(at_s)
        at_work = hour < 120 and 9 <= hour % 24 < 18
        if at_work and chance.random() < a_day / (9 * 60):
            times_s.append(at_s + 30.0)
    return _between(times_s, MONDAY_S + days * DAY_S)


def restless_owner(seed: int, days: int, a_day: float = 6.0) -> list[LentSpan]:
    """As likely to come back at one moment as at any other."""
    chance = random.Random(seed)
    times_s = [MONDAY_S]
    while times_s[-1] < MONDAY_S + days * DAY_S:
        times_s.append(times_s[-1] + chance.expovariate(a_day / DAY_S))
    return _between(times_s[:-1], MONDAY_S + days * DAY_S)


def _between(times_s: list[float], end_s: float) -> list[LentSpan]:
    spans = [
        LentSpan(from_s=begin, to_s=end, departed=True, free_since_s=begin)
        for begin, end in pairwise(times_s)
    ]
    spans.append(LentSpan(from_s=times_s[-1], to_s=end_s, departed=False, free_since_s=times_s[-1]))
    return spans
