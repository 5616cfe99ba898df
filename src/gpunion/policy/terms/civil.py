"""Clock and calendar on the wall, from and to seconds since 1970, without a library that could read a clock.

A zone is a function: how many seconds its clocks are ahead of UTC at a moment. Civil seconds are what such a
clock shows, counted from its 1970-01-01 00:00 as if no day ever had 23 hours.
"""

from __future__ import annotations

from collections.abc import Callable

DAY_S = 86_400
WEEK_S = 7 * DAY_S
DAY_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
# 1970-01-01 was a Thursday.
_FIRST_WEEKDAY = 3
# Days since 1970 lie between the years 1 and 9999.
_DAYS_PER_400_YEARS = 146_097

Zone = Callable[[float], float]


def civil_s(at_s: float, zone: Zone) -> float:
    return at_s + zone(at_s)


def moment_s(civil: float, zone: Zone) -> float:
    """When a clock of the zone shows this. The first time where it does so twice; where it never does, as
    long after the clocks went forward as the missing time is into the gap (RFC 5545 wants it so)."""
    before, after = zone(civil - DAY_S), zone(civil + DAY_S)
    if zone(civil - before) == before or zone(civil - after) != after:
        return civil - before
    return civil - after


def change_between_s(since_s: float, until_s: float, zone: Zone) -> float | None:
    """When the clocks are put forward or back in between, to the second; at most one change is found."""
    low, high = int(since_s), int(until_s)
    before, after = zone(low), zone(high)
    if before == after:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if zone(middle) == before else (low, middle)
    return float(high)


def weekday(day: int) -> int:
    """Of a day counted from 1970-01-01; Monday is 0."""
    return (day + _FIRST_WEEKDAY) % 7


def day_of(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01. ValueError for a date that is none."""
    if not (1 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= days_in(year, month)):
        raise ValueError(f"{year:04d}-{month:02d}-{day:02d} is no date")
    # Years from March on, so that the leap day is the last of a year.
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * _DAYS_PER_400_YEARS + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def date_of(day: int) -> tuple[int, int, int]:
    """Year, month and day of the month of a day counted from 1970-01-01."""
    era, of_era = divmod(day + 719_468, _DAYS_PER_400_YEARS)
    year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def days_in(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def shown(at_s: float, zone: Zone, now_s: float) -> str:
    """As on the wall: Mon 19:00. From a week ahead on with the date: the day's name means a sooner one."""
    civil = int(civil_s(at_s, zone))
    day, ahead = civil // DAY_S, civil // DAY_S - int(civil_s(now_s, zone)) // DAY_S
    hours, minutes = divmod(civil % DAY_S // 60, 60)
    year, month, of_month = date_of(day)
    date = f" {year}-{month:02d}-{of_month:02d}" if ahead >= len(DAY_NAMES) else ""
    return f"{DAY_NAMES[weekday(day)]}{date} {hours:02d}:{minutes:02d}"
