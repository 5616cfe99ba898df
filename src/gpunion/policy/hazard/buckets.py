"""Which hour of the owner's week a moment falls in.

People come back by the clock and the calendar, so departures are counted by the hour of the week, in the
owner's local time. 168 bins are many for a young node: until it has been lent for four weeks, its weekdays
are taken together and so are its weekend days (24 + 24 bins).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from math import inf

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
WEEK_HOURS = 168
WEEK_S = WEEK_HOURS * HOUR_S
MERGED_HOURS = 48
# Enough to tell night from office hours where the full 168 would cost too much memory (`history.py`).
BLOCKS = 12

# The epoch began on a Thursday; our week begins on Monday.
_EPOCH_S = 3 * DAY_S


def _merged(hour: int) -> int:
    day, hour_of_day = divmod(hour, 24)
    return hour_of_day if day < 5 else 24 + hour_of_day


MERGED = tuple(_merged(hour) for hour in range(WEEK_HOURS))
BLOCK = tuple(merged // 4 for merged in MERGED)
BLOCK_OF_MERGED = tuple(merged // 4 for merged in range(MERGED_HOURS))


def week_position_s(at_s: float, utc_offset_s: float = 0.0) -> float:
    """Seconds since Monday 00:00 of the owner, in [0, a week)."""
    position_s = (at_s + utc_offset_s + _EPOCH_S) % WEEK_S
    return position_s if position_s < WEEK_S else 0.0


def hour_of_week(at_s: float, utc_offset_s: float = 0.0) -> int:
    return int(week_position_s(at_s, utc_offset_s) // HOUR_S)


def hours_of(from_s: float, to_s: float, utc_offset_s: float = 0.0) -> Iterator[tuple[int, float, float]]:
    """The span cut at full hours: (hour of the week, from, to)."""
    position_s = week_position_s(from_s, utc_offset_s)
    hour = int(position_s // HOUR_S)
    left_s = (hour + 1) * HOUR_S - position_s
    while from_s < to_s:
        until_s = min(to_s, from_s + left_s)
        yield hour, from_s, until_s
        from_s, hour, left_s = until_s, (hour + 1) % WEEK_HOURS, HOUR_S


AGE_FROM_S = (0.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 18_000.0, 36_000.0, 72_000.0)
AGES = len(AGE_FROM_S)
NO_AGE_EFFECT = (1.0,) * AGES


def age_class(age_s: float) -> int:
    return max(0, bisect_right(AGE_FROM_S, age_s) - 1)


def age_ends_s(age: int) -> float:
    """How old a node is when it passes into the next class."""
    return AGE_FROM_S[age + 1] if age + 1 < AGES else inf


def ages_of(from_s: float, to_s: float, free_since_s: float) -> Iterator[tuple[int, float, float]]:
    """The span cut where the node passes from one class of age to the next: (class, from, to)."""
    age = age_class(from_s - free_since_s)
    while from_s < to_s:
        ends_s = free_since_s + age_ends_s(age)
        until_s = min(to_s, ends_s)
        if until_s > from_s:
            yield age, from_s, until_s
            from_s = until_s
        age += 1
