"""Reads appointments out of an iCalendar file (RFC 5545).

Understood: VEVENT with DTSTART, DTEND or DURATION, RRULE (DAILY, WEEKLY, MONTHLY, YEARLY with INTERVAL,
COUNT, UNTIL, BYDAY, BYMONTHDAY), EXDATE, RECURRENCE-ID, TZID by the zone's usual name. Called-off events
and those that do not block their time are left out. Anything that would change when an event takes place and
is not understood is an error with the event's name: an appointment that is silently missed would lend a
machine that is not to be had.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from gpunion.policy.terms.appointments import Appointment, Every, Rule, Stamp
from gpunion.policy.terms.civil import DAY_S, Zone, day_of, moment_s

T = TypeVar("T")

EVENTS_MAX = 5_000
# Birthdays began long ago; nobody lends a machine in 2200.
YEARS = (1900, 2200)
LENGTH_MAX_S = 366 * DAY_S
_WEEKDAYS = {"MO": 0, "TU": 1, "WE": 2, "TH": 3, "FR": 4, "SA": 5, "SU": 6}
_STAMP = re.compile(r"(\d{4})(\d{2})(\d{2})(?:T(\d{2})(\d{2})(\d{2})(Z?))?")
_DURATION = re.compile(r"\+?P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
_BYDAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_PROPERTY = re.compile(r'([A-Za-z0-9-]+)((?:;[A-Za-z0-9-]+=(?:"[^"]*"|[^;:"]*))*):(.*)', re.DOTALL)
_SERIES_PARTS = {"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYDAY", "BYMONTHDAY", "WKST"}
# Longer titles are somebody's notes.
_TITLE_MAX_CHARS = 60


class CalendarTrouble(ValueError):
    """What is wrong with the file, in words for its owner."""


@dataclass(slots=True)
class _Event:
    properties: dict[str, list[tuple[dict[str, str], str]]] = field(default_factory=dict)

    def one(self, name: str) -> tuple[dict[str, str], str] | None:
        found = self.properties.get(name)
        return found[0] if found else None

    def text(self, name: str) -> str:
        found = self.one(name)
        return found[1].strip() if found else ""

    @property
    def title(self) -> str:
        return self.text("SUMMARY")[:_TITLE_MAX_CHARS] or "an event without a title"

    @property
    def blocks(self) -> bool:
        return self.text("STATUS").upper() != "CANCELLED" and self.text("TRANSP").upper() != "TRANSPARENT"


def read_calendar(text: str, zone_named: Callable[[str], Zone | None]) -> tuple[Appointment, ...]:
    """CalendarTrouble says why not. `zone_named`: None for a zone nobody here knows."""
    events = _events(text)
    if len(events) > EVENTS_MAX:
        raise CalendarTrouble(f"it has {len(events)} events, {EVENTS_MAX} are allowed")
    moved: dict[str, list[Stamp]] = {}
    for event in events:
        if event.one("RECURRENCE-ID") is not None:
            stamp = _named(event, lambda e: _stamp(e, "RECURRENCE-ID", zone_named))
            moved.setdefault(event.text("UID"), []).append(stamp)
    return tuple(
        _named(event, lambda e: _appointment(e, moved, zone_named)) for event in events if event.blocks
    )


def _named(event: _Event, read: Callable[[_Event], T]) -> T:
    try:
        return read(event)
    except ValueError as error:
        raise CalendarTrouble(f"{event.title!r}: {error}") from error


def _appointment(
    event: _Event, moved: dict[str, list[Stamp]], zone_named: Callable[[str], Zone | None]
) -> Appointment:
    start = _stamp(event, "DTSTART", zone_named)
    if event.one("RDATE") is not None:
        raise ValueError("RDATE is not understood")
    without = [
        _parse_stamp(value, parameters, zone_named)
        for parameters, values in event.properties.get("EXDATE", [])
        for value in values.split(",")
    ]
    series = event.one("RECURRENCE-ID") is None
    if series:
        without += moved.get(event.text("UID"), [])
    rule = _rule(event.text("RRULE"), start) if series and event.one("RRULE") else None
    return Appointment(
        title=event.title,
        start=start,
        length_s=_checked_length(_length_s(event, start, zone_named)),
        rule=rule,
        without=tuple(without),
    )


def _length_s(event: _Event, start: Stamp, zone_named: Callable[[str], Zone | None]) -> int:
    if event.one("DTEND") is not None:
        end = _stamp(event, "DTEND", zone_named)
        length_s = end.civil - start.civil
        if end.zone != start.zone:
            length_s = round(_moment_s(end, zone_named) - _moment_s(start, zone_named))
        if length_s < 0:
            raise ValueError("it ends before it begins")
        return length_s
    if event.one("DURATION") is not None:
        return _duration_s(event.text("DURATION"))
    return DAY_S if start.whole_day else 0


def _checked_length(length_s: int) -> int:
    if length_s > LENGTH_MAX_S:
        raise ValueError("it takes longer than a year")
    return length_s


def _moment_s(stamp: Stamp, zone_named: Callable[[str], Zone | None]) -> float:
    zone = None if stamp.zone is None else zone_named(stamp.zone)
    if zone is None:
        raise ValueError("its begin and end are of different zones, one of them unnamed")
    return moment_s(stamp.civil, zone)


def _duration_s(text: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise ValueError(f"{text[:40]!r} is no duration")
    weeks, days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return (weeks * 7 + days) * DAY_S + hours * 3600 + minutes * 60 + seconds


def _stamp(event: _Event, name: str, zone_named: Callable[[str], Zone | None]) -> Stamp:
    found = event.one(name)
    if found is None:
        raise ValueError(f"it has no {name}")
    parameters, value = found
    return _parse_stamp(value, parameters, zone_named)


def _parse_stamp(
    text: str, parameters: dict[str, str], zone_named: Callable[[str], Zone | None] | None
) -> Stamp:
    match = _STAMP.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:40]!r} is no time")
    year, month, day, hour, minute, second, utc = match.groups()
    if not YEARS[0] <= int(year) <= YEARS[1]:
        raise ValueError(f"the year {year} is not between {YEARS[0]} and {YEARS[1]}")
    civil = day_of(int(year), int(month), int(day)) * DAY_S
    if hour is None:
        return Stamp(civil=civil, whole_day=True)
    if int(hour) > 23 or int(minute) > 59 or int(second) > 60:
        raise ValueError(f"{text!r} is no time of a day")
    civil += int(hour) * 3600 + int(minute) * 60 + min(59, int(second))
    zone = "UTC" if utc else parameters.get("TZID")
    if zone is not None and zone_named is not None and zone_named(zone) is None:
        raise ValueError(f"the time zone {zone!r} is not known on this machine")
    return Stamp(civil=civil, zone=zone)


def _rule(text: str, start: Stamp) -> Rule:
    parts = dict(part.partition("=")[::2] for part in text.upper().split(";") if part)
    strange = sorted(parts.keys() - _SERIES_PARTS)
    if strange:
        raise ValueError(f"{strange[0]} in its RRULE is not understood")
    try:
        every = Every(parts.get("FREQ", ""))
    except ValueError:
        raise ValueError(f"FREQ={parts.get('FREQ', '')} in its RRULE is not understood") from None
    rule = Rule(
        every=every,
        interval=_whole(parts, "INTERVAL", 1) or 1,
        count=_whole(parts, "COUNT", None),
        until=_parse_stamp(parts["UNTIL"], {}, None) if "UNTIL" in parts else None,
        weekdays=tuple(_weekday(word) for word in parts.get("BYDAY", "").split(",") if word),
        monthdays=tuple(int(word) for word in _listed(parts, "BYMONTHDAY", r"-?\d{1,2}")),
    )
    if rule.until is not None and rule.until.zone is None and not rule.until.whole_day:
        rule = replace(rule, until=replace(rule.until, zone=start.zone))
    _refuse_odd(rule, parts)
    return rule


def _refuse_odd(rule: Rule, parts: dict[str, str]) -> None:
    """Combinations that mean something else than what `appointments` makes of them."""
    if rule.every is Every.YEAR and (rule.weekdays or rule.monthdays):
        raise ValueError("BYDAY and BYMONTHDAY of a yearly series are not understood")
    if rule.monthdays and (rule.every is not Every.MONTH or rule.weekdays):
        raise ValueError("BYMONTHDAY is understood in monthly series without BYDAY only")
    if rule.every is not Every.MONTH and any(nth for nth, _ in rule.weekdays):
        raise ValueError("numbered weekdays are understood in monthly series only")
    if rule.every is Every.WEEK and rule.interval > 1 and parts.get("WKST", "MO") != "MO":
        raise ValueError("WKST other than MO is not understood in a series of every few weeks")


def _weekday(word: str) -> tuple[int, int]:
    match = _BYDAY.fullmatch(word)
    if match is None:
        raise ValueError(f"BYDAY={word[:20]} in its RRULE is not understood")
    return int(match[1] or 0), _WEEKDAYS[match[2]]


def _whole(parts: dict[str, str], name: str, default: int | None) -> int | None:
    text = parts.get(name)
    if text is None:
        return default
    if not text.isdecimal() or not 1 <= int(text) <= 100_000:
        raise ValueError(f"{name}={text[:20]} in its RRULE is not understood")
    return int(text)


def _listed(parts: dict[str, str], name: str, pattern: str) -> list[str]:
    words = [word for word in parts.get(name, "").split(",") if word]
    for word in words:
        if not re.fullmatch(pattern, word):
            raise ValueError(f"{name}={word[:20]} in its RRULE is not understood")
    return words


def _events(text: str) -> list[_Event]:
    """Properties of every VEVENT, without those of alarms and the like inside it."""
    events: list[_Event] = []
    inside: list[str] = []
    for name, parameters, value in _properties(text):
        if name == "BEGIN":
            inside.append(value.strip().upper())
            if inside[-1] == "VEVENT":
                events.append(_Event())
        elif name == "END":
            if not inside or inside.pop() != value.strip().upper():
                raise CalendarTrouble(f"END:{value.strip()[:40]} has no beginning")
        elif not inside:
            raise CalendarTrouble("it does not begin with BEGIN:VCALENDAR")
        elif inside[-1] == "VEVENT":
            events[-1].properties.setdefault(name, []).append((parameters, value))
    if inside:
        raise CalendarTrouble(f"it ends in the middle of a {inside[-1]}")
    return events


def _properties(text: str) -> Iterator[tuple[str, dict[str, str], str]]:
    unfolded = re.sub(r"\r?\n[ \t]", "", text.lstrip("\ufeff"))
    lines = [line for line in unfolded.splitlines() if line.strip()]
    if not lines or lines[0].strip().upper() != "BEGIN:VCALENDAR":
        raise CalendarTrouble("it is no iCalendar file: it does not begin with BEGIN:VCALENDAR")
    for line in lines:
        match = _PROPERTY.fullmatch(line)
        if match is None:
            raise CalendarTrouble(f"the line {line[:40]!r} is not understood")
        pairs = (pair.partition("=") for pair in re.findall(r';([^=;:]+=(?:"[^"]*"|[^;:]*))', match[2]))
        yield match[1].upper(), {name.upper(): value.strip('"') for name, _, value in pairs}, match[3]
