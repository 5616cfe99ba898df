"""Reads a calendar from its standard input and writes when its events take place.

Two libraries do the work; here is what they leave open. They pass over what they do not understand, and an
appointment that is passed over would lend a machine that is not to be had: everything that says when an event
takes place is checked, and refused with the event's name where it is odd. Definitions of time zones in the
file are not used: a zone is known by its usual name.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import icalendar
from recurring_ical_events import CalendarQuery

from gpunion.ports.calendar import CalendarTrouble

# (begin, end, floating): moments, or what the machine's own clock on the wall shows, in seconds since 1970.
Time = tuple[float, float, bool]

EVENTS_MAX = 5_000
TIMES_MAX = 100_000
MEMORY_LIMIT_BYTES = 1024**3
# Birthdays began long ago; nobody lends a machine in 2200.
YEARS = (1900, 2200)
LENGTH_MAX = timedelta(days=366)
FREQUENCIES = {"DAILY", "WEEKLY", "MONTHLY", "YEARLY"}
# With these a day has more than one; no appointment needs that.
WITHIN_A_DAY = {"BYHOUR", "BYMINUTE", "BYSECOND"}
TIMES_OF_AN_EVENT = ("DTSTART", "DTEND", "RECURRENCE-ID", "EXDATE", "RDATE")
# A zone's clocks are never further from UTC than this.
FARTHEST_ZONE = timedelta(days=2)
# Longer titles are somebody's notes.
TITLE_MAX_CHARS = 60

_ZONES = re.compile(r"^BEGIN:VTIMEZONE\s*$.*?^END:VTIMEZONE\s*$", re.DOTALL | re.MULTILINE | re.IGNORECASE)


def times(text: str, since_s: float, until_s: float) -> list[Time]:
    """CalendarTrouble says why not."""
    try:
        return _times(text, since_s, until_s)
    except CalendarTrouble:
        raise
    except Exception as error:  # the libraries raise whatever a strange file makes them stumble over
        raise CalendarTrouble(f"it is not understood: {_short(error)}") from error


def _times(text: str, since_s: float, until_s: float) -> list[Time]:
    calendar = _checked_calendar(text)
    since, until = (datetime.fromtimestamp(at_s, UTC) for at_s in (since_s, until_s))
    found = CalendarQuery(calendar).between(since - FARTHEST_ZONE, until + FARTHEST_ZONE)
    if len(found) > TIMES_MAX:
        raise CalendarTrouble(f"its events take place {len(found)} times, {TIMES_MAX} are allowed")
    return [_time(event) for event in found if _blocks(event)]


def _time(event: Any) -> Time:
    begin, end = event["DTSTART"].dt, event["DTEND"].dt
    return _seconds(begin), _seconds(end), _is_floating(begin)


def _checked_calendar(text: str) -> Any:
    text = text.lstrip("\ufeff").strip()
    if not text.upper().startswith("BEGIN:VCALENDAR"):
        raise CalendarTrouble("it is no iCalendar file: it does not begin with BEGIN:VCALENDAR")
    if not text.upper().endswith("END:VCALENDAR"):
        raise CalendarTrouble("it ends in the middle: its last line is not END:VCALENDAR")
    # Whatever says BEGIN:VEVENT in a title is counted too; nobody has so many of those.
    count = text.upper().count("BEGIN:VEVENT")
    if count > EVENTS_MAX:
        raise CalendarTrouble(f"it has {count} events, {EVENTS_MAX} are allowed")
    calendars = icalendar.Calendar.from_ical(_ZONES.sub("", text), multiple=True)
    events = [event for calendar in calendars for event in calendar.walk("VEVENT")]
    checked = icalendar.Calendar()
    for event in _without_shared_names(events):
        try:
            _check(event)
        except ValueError as error:
            raise CalendarTrouble(f"{_title(event)!r}: {error}") from error
        checked.add_component(event)
    return checked


def _without_shared_names(events: Iterable[Any]) -> Iterator[Any]:
    """Two events of one UID are one for the library, which would forget one of them. Events that take no time
    of the machine's are left out, but for one of a series: it says when the series does not take place."""
    seen: set[str] = set()
    for event in events:
        if "RECURRENCE-ID" not in event:
            if not _blocks(event):
                continue
            name = str(event.get("UID", ""))
            if name in seen:
                event["UID"] = f"{name} {len(seen)}"
            seen.add(str(event.get("UID", "")))
        yield event


def _check(event: Any) -> None:
    for name, error in event.errors:
        raise ValueError(f"{name or 'a line'} is not understood: {_short(error)}")
    if "DTSTART" not in event:
        raise ValueError("it has no DTSTART")
    for name in ("DTSTART", "DTEND", "DURATION", "RECURRENCE-ID"):
        if isinstance(event.get(name), list):
            raise ValueError(f"it has more than one {name}")
    if "EXRULE" in event:
        raise ValueError("EXRULE is not understood")
    for name in TIMES_OF_AN_EVENT:
        for value, at in _values(event, name):
            _check_time(name, value, at)
    _check_length(event)
    rules = event.get("RRULE", [])
    for rule in rules if isinstance(rules, list) else [rules]:
        _check_rule(rule, event["DTSTART"].dt)


def _values(event: Any, name: str) -> Iterator[tuple[Any, Any]]:
    """Each with the property that it stands in. Of a period, its begin."""
    found = event.get(name, [])
    for one in found if isinstance(found, list) else [found]:
        for value in getattr(one, "dts", [one]):
            is_period = name == "RDATE" and isinstance(value.dt, tuple)
            yield one, value.dt[0] if is_period else value.dt


def _check_time(name: str, value: Any, at: Any) -> None:
    if not isinstance(at, date):
        raise ValueError(f"{name} is no time")
    if not YEARS[0] <= at.year <= YEARS[1]:
        raise ValueError(f"the year {at.year:04d} is not between {YEARS[0]} and {YEARS[1]}")
    zone = value.params.get("TZID")
    if zone and isinstance(at, datetime) and at.tzinfo is None:
        raise ValueError(f"the time zone {str(zone)[:60]!r} is not known on this machine")


def _check_length(event: Any) -> None:
    begin = event["DTSTART"].dt
    if "DTEND" in event:
        end = event["DTEND"].dt
        if _is_floating(begin) is not _is_floating(end):
            raise ValueError("its begin and end are of different zones, one of them unnamed")
        length = timedelta(seconds=_seconds(end) - _seconds(begin))
    else:
        length = event["DURATION"].dt if "DURATION" in event else timedelta()
    if length < timedelta():
        raise ValueError("it ends before it begins")
    if length > LENGTH_MAX:
        raise ValueError("it takes longer than a year")


def _check_rule(rule: Any, begin: date) -> None:
    """Mends its UNTIL: a date means all of that day, and a time without a zone is of the event's."""
    frequency = ",".join(map(str, rule.get("FREQ", []))).upper()
    if frequency not in FREQUENCIES:
        raise ValueError(f"FREQ={frequency[:20]} in its RRULE is not understood")
    strange = sorted(WITHIN_A_DAY & {str(part).upper() for part in rule})
    if strange:
        raise ValueError(f"{strange[0]} in its RRULE is not understood")
    for name in ("COUNT", "INTERVAL"):
        for number in rule.get(name, []):
            if not 1 <= number <= 100_000:
                raise ValueError(f"{name}={number} in its RRULE is not understood")
    for last in rule.get("UNTIL", []):
        if not isinstance(begin, datetime):
            rule["UNTIL"] = [date(last.year, last.month, last.day)]
            continue
        if not isinstance(last, datetime):
            last = datetime.combine(last, time(23, 59, 59))
        if last.tzinfo is None and begin.tzinfo is not None:
            last = last.replace(tzinfo=begin.tzinfo).astimezone(UTC)
        rule["UNTIL"] = [last]


def _blocks(event: Any) -> bool:
    called_off = str(event.get("STATUS", "")).upper() == "CANCELLED"
    return not called_off and str(event.get("TRANSP", "")).upper() != "TRANSPARENT"


def _title(event: Any) -> str:
    return str(event.get("SUMMARY", ""))[:TITLE_MAX_CHARS] or "an event without a title"


def _short(error: object) -> str:
    return " ".join(str(error).split())[:200]


def _is_floating(at: date) -> bool:
    return not isinstance(at, datetime) or at.tzinfo is None


def _seconds(at: date) -> float:
    """A floating time as if its clock showed UTC."""
    if not isinstance(at, datetime):
        at = datetime.combine(at, time())
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    work_limit_s = int(sys.argv[3])
    resource.setrlimit(resource.RLIMIT_CPU, (work_limit_s, work_limit_s + 1))
    answer: dict[str, object]
    try:
        text = sys.stdin.buffer.read().decode()
        answer = {"times": times(text, float(sys.argv[1]), float(sys.argv[2]))}
    except CalendarTrouble as trouble:
        answer = {"trouble": str(trouble)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
