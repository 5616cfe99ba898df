"""What an owner's hours and calendar file say, and what is said of those that cannot be read."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest

from gpunion.policy.terms.appointments import busy_spans
from gpunion.policy.terms.civil import Zone
from gpunion.policy.terms.forecast import Times
from gpunion.policy.terms.hours import parse_hours
from gpunion.policy.terms.icalendar import CalendarTrouble, read_calendar

BERLIN = "Europe/Berlin"


def zone_named(name: str) -> Zone | None:
    try:
        info = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return None
    return lambda at_s: datetime.fromtimestamp(at_s, info).utcoffset().total_seconds()  # type: ignore[union-attr]


def zone_of(name: str | None) -> Zone:
    zone = zone_named(name or BERLIN)
    assert zone is not None
    return zone


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(BERLIN)).timestamp()


def calendar(*lines: str) -> str:
    return "\r\n".join(["BEGIN:VCALENDAR", "BEGIN:VEVENT", *lines, "END:VEVENT", "END:VCALENDAR", ""])


def busy(text: str, since: str = "2026-03-01", until: str = "2026-05-01") -> list[tuple[str, str]]:
    def wall(at_s: float) -> str:
        return datetime.fromtimestamp(at_s, ZoneInfo(BERLIN)).strftime("%m-%d %H:%M")

    spans = busy_spans(read_calendar(text, zone_named), zone_of, at(since), at(until))
    return [(wall(begin), wall(end)) for begin, end in spans]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["DTSTART:20260310T080000Z", "DTEND:20260310T090000Z"], [("03-10 09:00", "03-10 10:00")]),
        (["DTSTART:20260310T090000", "DURATION:PT1H30M"], [("03-10 09:00", "03-10 10:30")]),
        (["DTSTART;VALUE=DATE:20260329"], [("03-29 00:00", "03-30 00:00")]),  # a day of 23 hours
        (
            # Weekly across the change to summer time keeps its hour on the wall.
            [
                f"DTSTART;TZID={BERLIN}:20260326T090000",
                f"DTEND;TZID={BERLIN}:20260326T100000",
                "RRULE:FREQ=WEEKLY;COUNT=2",
            ],
            [("03-26 09:00", "03-26 10:00"), ("04-02 09:00", "04-02 10:00")],
        ),
        (
            [
                "DTSTART;TZID=America/New_York:20260302T090000",
                "DURATION:PT1H",
                "RRULE:FREQ=DAILY;INTERVAL=2;UNTIL=20260306T235959Z",
                "EXDATE;TZID=America/New_York:20260304T090000",
            ],
            [("03-02 15:00", "03-02 16:00"), ("03-06 15:00", "03-06 16:00")],
        ),
        (
            ["DTSTART:20260302T090000", "DURATION:PT1H", "RRULE:FREQ=WEEKLY;BYDAY=MO,WE;UNTIL=20260309"],
            [
                ("03-02 09:00", "03-02 10:00"),
                ("03-04 09:00", "03-04 10:00"),
                ("03-09 09:00", "03-09 10:00"),
            ],
        ),
        (
            ["DTSTART:20260303T090000", "DURATION:PT1H", "RRULE:FREQ=MONTHLY;BYDAY=1TU"],
            [("03-03 09:00", "03-03 10:00"), ("04-07 09:00", "04-07 10:00")],
        ),
        (
            ["DTSTART:20260131T090000", "DURATION:PT1H", "RRULE:FREQ=MONTHLY;BYMONTHDAY=-1"],
            [("03-31 09:00", "03-31 10:00"), ("04-30 09:00", "04-30 10:00")],
        ),
        (
            ["DTSTART:20240310T090000", "DURATION:PT1H", "RRULE:FREQ=YEARLY"],
            [("03-10 09:00", "03-10 10:00")],
        ),
        (["DTSTART:20260310T090000", "DURATION:PT1H", "STATUS:CANCELLED"], []),
        (["DTSTART:20260310T090000", "DURATION:PT1H", "TRANSP:TRANSPARENT"], []),
        (
            # Folded lines and an alarm inside.
            [
                "SUMMARY:a very",
                "  long title",
                "DTSTART:20260310T090000",
                "DURATION:PT1H",
                "BEGIN:VALARM",
                "TRIGGER:-PT15M",
                "DURATION:PT5M",
                "END:VALARM",
            ],
            [("03-10 09:00", "03-10 10:00")],
        ),
    ],
)
def test_events_take_the_machine_when_they_take_place(
    lines: list[str], expected: list[tuple[str, str]]
) -> None:
    assert busy(calendar(*lines)) == expected


def test_a_counted_series_that_is_over_costs_nothing_and_one_that_is_not_is_counted_right() -> None:
    lines = ["DTSTART:19000101T090000", "DURATION:PT1H", "RRULE:FREQ=WEEKLY;COUNT=2"]
    assert busy(calendar(*lines)) == []
    lines[2] = "RRULE:FREQ=DAILY;COUNT=46083"  # the last one is on the 3rd of March
    assert [begin for begin, _ in busy(calendar(*lines))] == ["03-01 09:00", "03-02 09:00", "03-03 09:00"]


def test_one_of_a_series_that_was_moved_takes_place_where_it_was_moved_to() -> None:
    series = ["UID:1", "DTSTART:20260302T090000Z", "DURATION:PT1H", "RRULE:FREQ=WEEKLY;COUNT=2"]
    moved = ["UID:1", "RECURRENCE-ID:20260309T090000Z", "DTSTART:20260309T140000Z", "DURATION:PT1H"]
    both = calendar(*series, "END:VEVENT", "BEGIN:VEVENT", *moved)
    assert busy(both) == [("03-02 10:00", "03-02 11:00"), ("03-09 15:00", "03-09 16:00")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no iCalendar file"),
        ("hello", "no iCalendar file"),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260310T090000", "ends in the middle of a VEVENT"),
        ("BEGIN:VCALENDAR\nEND:VEVENT", "has no beginning"),
        ("BEGIN:VCALENDAR\n\x00\nEND:VCALENDAR", "is not understood"),
        (calendar("SUMMARY:lunch"), "'lunch': it has no DTSTART"),
        (calendar("DTSTART:20260231T090000"), "2026-02-31 is no date"),
        (calendar("DTSTART;TZID=Mars/Base:20260301T090000"), "time zone 'Mars/Base' is not known"),
        (calendar("DTSTART:20260301T090000", "DTEND:20260301T080000"), "ends before it begins"),
        (calendar("DTSTART:20260301T090000", "DURATION:soon"), "'soon' is no duration"),
        (calendar("DTSTART:20260301T090000", "RRULE:FREQ=HOURLY"), "FREQ=HOURLY in its RRULE"),
        (calendar("DTSTART:20260301T090000", "RRULE:FREQ=DAILY;BYHOUR=3"), "BYHOUR in its RRULE"),
        (calendar("DTSTART:20260301T090000", "RRULE:FREQ=DAILY;COUNT=0"), "COUNT=0"),
        (calendar("DTSTART:20260301T090000", "RRULE:FREQ=WEEKLY;BYDAY=XX"), "BYDAY=XX"),
        (calendar("DTSTART:20260301T090000", "RRULE:FREQ=WEEKLY;BYDAY=2MO"), "numbered weekdays"),
        (calendar("DTSTART:20260301T090000", "RRULE:FREQ=YEARLY;BYDAY=2MO"), "of a yearly series"),
        (calendar("DTSTART:20260301T090000", "RRULE:FREQ=DAILY;BYMONTHDAY=2"), "monthly series without"),
        (calendar("DTSTART:20260301T090000", "RRULE:FREQ=MONTHLY;BYMONTHDAY=x"), "BYMONTHDAY=X"),
        (calendar("DTSTART:20260301T090000", "RRULE:FREQ=WEEKLY;INTERVAL=2;WKST=SU"), "WKST"),
        (calendar("DTSTART:20260301T090000", "RDATE:20260302T090000"), "RDATE is not understood"),
        (calendar("DTSTART:20260301T250000"), "no time of a day"),
        (calendar("DTSTART:yesterday"), "'yesterday' is no time"),
        (calendar("DTSTART:00010101T000000Z"), "the year 0001 is not between"),
        (calendar("DTSTART:20260301T090000", "DURATION:P99999999999W"), "longer than a year"),
        (calendar("DTSTART:20260301T090000", "DTEND:20260301T090000Z"), "different zones"),
    ],
)
def test_a_calendar_that_is_not_understood_is_refused_with_the_event_and_the_reason(
    text: str, said: str
) -> None:
    with pytest.raises(CalendarTrouble, match=said.replace("(", r"\(")):
        read_calendar(text, zone_named)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Mon-Fri 19:00", "are no times"),
        ("Mon-Fry", "'Fry' is no day; days are Mon"),
        ("M 10:00-12:00", "'M' is no day"),
        ("Mon 25:00-26:00", "no times of a day"),
        ("Mon 10:00-10:00", "has no length"),
        ("Mon,,Tue", "not understood"),
        ("whenever I like", "not understood"),
        ("Mon " * 200, "characters"),
    ],
)
def test_hours_that_are_none_are_refused_with_an_example(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_hours(text)


def test_a_forecast_names_the_end_and_why_it_is_not_lent() -> None:
    appointment = read_calendar(calendar("DTSTART:20260310T210000", "DURATION:PT1H"), zone_named)
    times = Times(zone_of, parse_hours("Mon-Fri 19:00-08:00, Sat-Sun"), appointment)
    evening = times.forecast(at("2026-03-10T20:00"))
    assert (evening.lent, evening.changes_s) == (True, at("2026-03-10T21:00"))
    meeting = times.forecast(at("2026-03-10T21:30"))
    assert meeting.because == "it is its owner's by their calendar, again from Tue 22:00"
    noon = times.forecast(at("2026-03-11T12:00"))
    assert noon.because == "it is not lent at this hour, again from Wed 19:00"
    weekend = times.forecast(at("2026-03-14T12:00"))
    assert weekend.changes_s == at("2026-03-16T00:00")  # the night to Monday is Sunday's, and Sunday ends


def test_no_hours_are_all_hours() -> None:
    for text in ("", "always", "Mon-Sun"):
        forecast = Times(zone_of, parse_hours(text)).forecast(at("2026-03-29T02:30"))
        assert (forecast.lent, forecast.changes_s) == (True, None)
