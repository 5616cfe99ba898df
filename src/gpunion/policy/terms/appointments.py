"""An owner's appointments: what recurs, and when the machine is theirs because of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from gpunion.policy.terms.civil import DAY_S, Zone, date_of, days_in, moment_s, weekday

Span = tuple[float, float]
# A zone's clocks are never further from UTC than this: what begins later by the wall begins later.
FARTHEST_ZONE_S = 2 * DAY_S


class Every(StrEnum):
    DAY = "DAILY"
    WEEK = "WEEKLY"
    MONTH = "MONTHLY"
    YEAR = "YEARLY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """A date, or a time on the clocks of a zone. No zone: of the machine's own."""

    civil: int
    zone: str | None = None
    whole_day: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    every: Every
    interval: int = 1
    count: int | None = None
    until: Stamp | None = None
    weekdays: tuple[tuple[int, int], ...] = ()  # (which of the month, day); 0: each of them
    monthdays: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Appointment:
    title: str
    start: Stamp
    length_s: int
    rule: Rule | None = None
    without: tuple[Stamp, ...] = ()  # of a series, those that are called off or moved


def busy_spans(
    appointments: Iterable[Appointment], zone_of: Callable[[str | None], Zone], since_s: float, until_s: float
) -> list[Span]:
    """When the machine is its owner's between two moments, in order and apart from each other."""
    spans: list[Span] = []
    for appointment in appointments:
        spans += _spans(appointment, zone_of, since_s, until_s)
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _spans(
    one: Appointment, zone_of: Callable[[str | None], Zone], since_s: float, until_s: float
) -> Iterator[Span]:
    zone = zone_of(one.start.zone)
    without = {moment_s(stamp.civil, zone_of(stamp.zone)) for stamp in one.without if not stamp.whole_day}
    days_off = {stamp.civil // DAY_S for stamp in one.without if stamp.whole_day}
    last_s = inf
    if one.rule is not None and one.rule.until is not None:
        last_s = _last_moment_s(one.rule.until, zone_of)
    for civil in _starts(one, since_s, until_s + FARTHEST_ZONE_S):
        begin = moment_s(civil, zone)
        if begin >= until_s or begin > last_s:
            return
        end = moment_s(civil + one.length_s, zone)
        if end > since_s and end > begin and begin not in without and civil // DAY_S not in days_off:
            yield begin, end


def _last_moment_s(until: Stamp, zone_of: Callable[[str | None], Zone]) -> float:
    civil = until.civil + (DAY_S - 1 if until.whole_day else 0)
    return moment_s(civil, zone_of(until.zone))


def _starts(one: Appointment, since_s: float, until_s: float) -> Iterator[int]:
    """Civil starts in order. A series that is not counted begins shortly before it matters."""
    rule = one.rule
    if rule is None:
        yield one.start.civil
        return
    first, of_day = divmod(one.start.civil, DAY_S)
    day, left = first, rule.count
    if left is not None and (first + left * _LONGEST_STEP[rule.every] * rule.interval) * DAY_S < (
        since_s - one.length_s - FARTHEST_ZONE_S
    ):
        return  # its last one is long over: not worth counting
    if left is None:
        day = max(first, int(since_s) // DAY_S - one.length_s // DAY_S - 3)
    while day * DAY_S < until_s and (left is None or left > 0):
        if day == first or falls_on(rule, first, day):
            yield day * DAY_S + of_day
            left = None if left is None else left - 1
        day += 1


# How many days may lie between one of a series and the next: a leap year's 29th of February comes back late.
_LONGEST_STEP = {Every.DAY: 7, Every.WEEK: 7, Every.MONTH: 366, Every.YEAR: 8 * 366}


def falls_on(rule: Rule, first: int, day: int) -> bool:
    """Whether a series that began on a day has one on another day."""
    match rule.every:
        case Every.DAY:
            return (day - first) % rule.interval == 0 and _is_weekday(rule, day)
        case Every.WEEK:
            weeks = (day - weekday(day) - (first - weekday(first))) // 7
            wanted = rule.weekdays or ((0, weekday(first)),)
            return weeks % rule.interval == 0 and any(weekday(day) == each for _, each in wanted)
        case Every.MONTH:
            return _months(first, day) % rule.interval == 0 and _in_month(rule, first, day)
        case Every.YEAR:
            (year, *date), (first_year, *first_date) = date_of(day), date_of(first)
            return date == first_date and (year - first_year) % rule.interval == 0


def _in_month(rule: Rule, first: int, day: int) -> bool:
    year, month, of_month = date_of(day)
    if rule.weekdays:
        from_end = days_in(year, month) - of_month
        places = {0, (of_month - 1) // 7 + 1, -(from_end // 7 + 1)}
        return any(weekday(day) == each and nth in places for nth, each in rule.weekdays)
    wanted = rule.monthdays or (date_of(first)[2],)
    return of_month in wanted or of_month - days_in(year, month) - 1 in wanted


def _is_weekday(rule: Rule, day: int) -> bool:
    return not rule.weekdays or any(weekday(day) == each for _, each in rule.weekdays)


def _months(first: int, day: int) -> int:
    (first_year, first_month, _), (year, month, _) = date_of(first), date_of(day)
    return (year - first_year) * 12 + month - first_month
