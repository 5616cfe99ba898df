"""Weekly hours: when a machine is lent, as its owner writes it ("Mon-Fri 19:00-08:00, Sat-Sun").

The clock on the owner's wall counts. On the two days a year when clocks are changed, hours that lie on the
missing hour begin or end when the clocks are put forward, and hours on the doubled hour count both times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpunion.policy.terms.civil import DAY_NAMES, DAY_S, WEEK_S, Zone, change_between_s, civil_s, weekday

# Longer than a week, so that every boundary of the hours is met at least once.
LOOK_AHEAD_S = 8 * DAY_S
HOURS_LIMIT_CHARS = 500
_ENTRY = re.compile(r"(?:(?P<days>[A-Za-z]+(?:\s*-\s*[A-Za-z]+)?))?\s*(?P<times>\d.*)?")
_TIMES = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")
_EXAMPLE = 'write them like "Mon-Fri 19:00-08:00, Sat-Sun"'


@dataclass(frozen=True, slots=True)
class WeeklyHours:
    """Spans of a week in seconds from Monday 00:00, in order, apart from each other. None: always."""

    spans: tuple[tuple[int, int], ...] | None = None

    def cover(self, at_s: float, zone: Zone) -> bool:
        if self.spans is None:
            return True
        now = _week_s(civil_s(at_s, zone))
        return any(begin <= now < end for begin, end in self.spans)

    def next_change_s(self, at_s: float, zone: Zone) -> float | None:
        """When they begin or end next; None where they never do."""
        if self.spans is None or self.spans == ((0, WEEK_S),):
            return None
        open_now = self.cover(at_s, zone)
        for moment in sorted({m for m in self._candidates(at_s, zone) if m > at_s}):
            if self.cover(moment, zone) is not open_now:
                return moment
        return None

    def _candidates(self, at_s: float, zone: Zone) -> Iterator[float]:
        """Every moment at which they may change: a boundary by the wall's clock, or the clock itself."""
        first = int(civil_s(at_s, zone)) // DAY_S - 1
        bounds = {bound for span in self.spans or () for bound in span}
        for day in range(first, first + LOOK_AHEAD_S // DAY_S + 3):
            noon_s = day * DAY_S + DAY_S // 2
            since_s, until_s = noon_s - 1.5 * DAY_S, noon_s + 1.5 * DAY_S
            changed_s = change_between_s(since_s, until_s, zone)
            if changed_s is not None:
                yield changed_s
            for bound in bounds:
                if bound % WEEK_S // DAY_S == weekday(day):
                    civil = day * DAY_S + bound % DAY_S
                    yield from (civil - zone(since_s), civil - zone(until_s))


ALWAYS = WeeklyHours()


def parse_hours(text: str) -> WeeklyHours:
    """ValueError says what is wrong and how it is written."""
    if len(text) > HOURS_LIMIT_CHARS:
        raise ValueError(f"they have {len(text)} characters, {HOURS_LIMIT_CHARS} are allowed")
    if text.strip().lower() in ("", "always"):
        return ALWAYS
    spans = [span for entry in text.split(",") for span in _entry(entry.strip())]
    return WeeklyHours(_merged(spans))


def _entry(text: str) -> Iterator[tuple[int, int]]:
    match = _ENTRY.fullmatch(text)
    if match is None or not text:
        raise ValueError(f"{text!r} is not understood; {_EXAMPLE}")
    begin_s, end_s = _times(match["times"]) if match["times"] else (0, DAY_S)
    if end_s <= begin_s:
        end_s += DAY_S  # past midnight: the rest belongs to the evening it began on
    for day in _days(match["days"]):
        begin, end = day * DAY_S + begin_s, day * DAY_S + end_s
        yield begin, min(end, WEEK_S)
        if end > WEEK_S:
            yield 0, end - WEEK_S


def _days(text: str | None) -> list[int]:
    if text is None:
        return list(range(7))
    first, dash, last = (part.strip() for part in text.partition("-"))
    begin = _day(first)
    end = _day(last) if dash else begin
    return [(begin + step) % 7 for step in range((end - begin) % 7 + 1)]


def _day(word: str) -> int:
    for number, name in enumerate(_FULL_NAMES):
        if len(word) >= 2 and name.startswith(word.lower()):
            return number
    raise ValueError(f"{word!r} is no day; days are {', '.join(DAY_NAMES)}")


def _times(text: str) -> tuple[int, int]:
    match = _TIMES.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} are no times; {_EXAMPLE}")
    from_h, from_m, to_h, to_m = map(int, match.groups())
    begin_s, end_s = from_h * 3600 + from_m * 60, to_h * 3600 + to_m * 60
    if max(from_m, to_m) > 59 or begin_s >= DAY_S or end_s > DAY_S:
        raise ValueError(f"{text!r} are no times of a day (00:00 to 24:00)")
    if begin_s == end_s:
        raise ValueError(f"{text!r} has no length; a whole day is written without times")
    return begin_s, end_s


def _merged(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return tuple(merged)


def _week_s(civil: float) -> float:
    day, of_day = divmod(civil, DAY_S)
    return weekday(int(day)) * DAY_S + of_day


_FULL_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
