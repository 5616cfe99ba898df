"""What an owner's calendar file says, and what is said of one that cannot be read or costs too much."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from gpunion.adapters.calendar.child import times
from gpunion.adapters.calendar.reader import CalendarReader
from gpunion.policy.terms.busy import Appointment, busy_spans
from gpunion.ports.calendar import CalendarTrouble

BERLIN = "Europe/Berlin"


def berlin(at_s: float) -> float:
    offset = datetime.fromtimestamp(at_s, ZoneInfo(BERLIN)).utcoffset()
    assert offset is not None
    return offset.total_seconds()


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(BERLIN)).timestamp()


def calendar(*lines: str) -> str:
    return "\r\n".join(["BEGIN:VCALENDAR", "BEGIN:VEVENT", *lines, "END:VEVENT", "END:VCALENDAR", ""])


def busy(text: str, since: str = "2026-03-01", until: str = "2026-05-01") -> list[tuple[str, str]]:
    def wall(at_s: float) -> str:
        return datetime.fromtimestamp(at_s, ZoneInfo(BERLIN)).strftime("%m-%d %H:%M")

    found = [
        Appointment(begin_s=begin, end_s=end, floating=floating)
        for begin, end, floating in times(text, at(since), at(until))
    ]
    spans = [span for span in busy_spans(found, berlin) if span[1] > at(since) and span[0] < at(until)]
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
        (
            # Weeks that begin on Sunday: the Sunday and the Monday after it are of one.
            [
                "DTSTART:20260322T090000",
                "DURATION:PT1H",
                "RRULE:FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=SU,MO;COUNT=4",
            ],
            [(f"{day} 09:00", f"{day} 10:00") for day in ("03-22", "03-23", "04-05", "04-06")],
        ),
        (
            ["DTSTART:20260310T090000", "DURATION:PT1H", "RDATE:20260312T090000"],
            [("03-10 09:00", "03-10 10:00"), ("03-12 09:00", "03-12 10:00")],
        ),
        (
            # Until a date: all of that day, in the event's zone.
            [f"DTSTART;TZID={BERLIN}:20260310T090000", "DURATION:PT1H", "RRULE:FREQ=DAILY;UNTIL=20260311"],
            [("03-10 09:00", "03-10 10:00"), ("03-11 09:00", "03-11 10:00")],
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
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260310T090000", "ends in the middle"),
        ("BEGIN:VCALENDAR\nEND:VEVENT\nEND:VCALENDAR", "is not understood"),
        ("BEGIN:VCALENDAR\n\x00\nEND:VCALENDAR", "is not understood"),
        (calendar("SUMMARY:lunch"), "'lunch': it has no DTSTART"),
        (calendar("DTSTART:20260231T090000"), "DTSTART is not understood: .*20260231"),
        (calendar("DTSTART;TZID=Mars/Base:20260301T090000"), "time zone 'Mars/Base' is not known"),
        (calendar("DTSTART:20260301T090000", "DTEND:20260301T080000"), "ends before it begins"),
        (calendar("DTSTART:20260301T090000", "DURATION:soon"), "DURATION is not understood: .*'soon'"),
        (calendar("DTSTART:20260301T090000", "RRULE:FREQ=HOURLY"), "FREQ=HOURLY in its RRULE"),
        (calendar("DTSTART:20260301T090000", "RRULE:FREQ=DAILY;BYHOUR=3"), "BYHOUR in its RRULE"),
        (calendar("DTSTART:20260301T090000", "RRULE:FREQ=DAILY;COUNT=0"), "COUNT=0"),
        (calendar("DTSTART:20260301T090000", "RRULE:FREQ=WEEKLY;BYDAY=XX"), "RRULE is not understood: .*XX"),
        (
            calendar("DTSTART:20260301T090000", "RRULE:FREQ=MONTHLY;BYMONTHDAY=x"),
            "RRULE is not understood: .*x",
        ),
        (calendar("DTSTART:20260301T090000", "RRULE:FREQ=DAILY;INTERVAL=0"), "INTERVAL=0"),
        (calendar("DTSTART:20260301T090000", "EXRULE:FREQ=DAILY"), "EXRULE is not understood"),
        (calendar("DTSTART:20260301T090000", "DTSTART:20260302T090000"), "more than one DTSTART"),
        (calendar("DTSTART;VALUE=PERIOD:20260301T090000/PT1H"), "DTSTART is no time"),
        (calendar("DTSTART:20260301T090000", "EXDATE;TZID=X:20260301T090000"), "time zone 'X'"),
        (calendar("DTSTART:20260301T250000"), "DTSTART is not understood"),
        (calendar("DTSTART:yesterday"), "DTSTART is not understood: .*'yesterday'"),
        (calendar("DTSTART:00010101T000000Z"), "the year 0001 is not between"),
        (calendar("DTSTART:20260301T090000", "DURATION:P99W"), "longer than a year"),
        (calendar("DTSTART:20260301T090000", "DTEND:20260301T090000Z"), "different zones"),
    ],
)
def test_a_calendar_that_is_not_understood_is_refused_with_the_event_and_the_reason(
    text: str, said: str
) -> None:
    with pytest.raises(CalendarTrouble, match=said.replace("(", r"\(")):
        times(text, at("2026-03-01"), at("2026-05-01"))


def test_two_events_of_one_name_both_take_place() -> None:
    first = ["UID:1", "DTSTART:20260302T090000Z", "DURATION:PT1H"]
    second = ["UID:1", "DTSTART:20260304T090000Z", "DURATION:PT1H"]
    assert busy(calendar(*first, "END:VEVENT", "BEGIN:VEVENT", *second)) == [
        ("03-02 10:00", "03-02 11:00"),
        ("03-04 10:00", "03-04 11:00"),
    ]


def test_one_of_a_series_that_was_called_off_does_not_take_place() -> None:
    series = ["UID:1", "DTSTART:20260302T090000Z", "DURATION:PT1H", "RRULE:FREQ=DAILY;COUNT=2"]
    off = ["UID:1", "RECURRENCE-ID:20260303T090000Z", "DTSTART:20260303T090000Z", "STATUS:CANCELLED"]
    assert busy(calendar(*series, "END:VEVENT", "BEGIN:VEVENT", *off)) == [("03-02 10:00", "03-02 11:00")]


def test_a_zone_is_what_this_machine_knows_by_its_name_whatever_the_file_says() -> None:
    zone = [
        f"BEGIN:VTIMEZONE\r\nTZID:{BERLIN}\r\nBEGIN:STANDARD\r\nDTSTART:19700101T000000",
        "TZOFFSETFROM:+0900\r\nTZOFFSETTO:+0900\r\nRRULE:FREQ=SECONDLY\r\nEND:STANDARD\r\nEND:VTIMEZONE",
    ]
    event = ["BEGIN:VEVENT", f"DTSTART;TZID={BERLIN}:20260310T090000", "DURATION:PT1H", "END:VEVENT"]
    text = "\r\n".join(["BEGIN:VCALENDAR", *zone, *event, "END:VCALENDAR"])
    assert busy(text) == [("03-10 09:00", "03-10 10:00")]


def test_the_process_answers_as_the_libraries_do() -> None:
    text = calendar("SUMMARY:lunch", "DTSTART:20260310T090000", "DURATION:PT1H")
    since_s, until_s = at("2026-03-01"), at("2026-05-01")
    expected = [
        Appointment(begin_s=begin, end_s=end, floating=floating)
        for begin, end, floating in times(text, since_s, until_s)
    ]
    assert list(CalendarReader().appointments(text, since_s, until_s)) == expected != []
    with pytest.raises(CalendarTrouble, match="'lunch': it has no DTSTART"):
        CalendarReader().appointments(calendar("SUMMARY:lunch"), since_s, until_s)


def test_a_calendar_that_would_be_worked_out_for_hours_is_refused_in_time() -> None:
    never = [
        "DTSTART:19500101T090000",
        "RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "END:VEVENT",
        "BEGIN:VEVENT",
    ]
    hostile = calendar(*never * 2_000, "DTSTART:20260301T090000")
    with pytest.raises(CalendarTrouble, match=r"more than 2 s of processor time|worked out within 8 s"):
        CalendarReader(work_limit_s=2).appointments(hostile, at("2026-03-01"), at("2026-03-20"))


def test_a_calendar_of_too_many_events_is_refused() -> None:
    with pytest.raises(CalendarTrouble, match="has 5002 events, 5000 are allowed"):
        times("BEGIN:VCALENDAR\n" + "BEGIN:VEVENT\nEND:VEVENT\n" * 5_002 + "END:VCALENDAR", 0.0, 1.0)
