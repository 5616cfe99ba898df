"""Whatever is written as terms or as a calendar is understood or refused in words; nothing else happens."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpunion.adapters.calendar.child import times
from gpunion.agent.terms.file import KEYS, TermsTrouble, changed, parse_terms, written
from gpunion.agent.terms.wall_time import machines_own_zone
from gpunion.domain.nodes.terms import OwnersTerms
from gpunion.policy.terms.busy import Appointment, busy_spans
from gpunion.policy.terms.civil import DAY_S
from gpunion.policy.terms.forecast import Times
from gpunion.ports.calendar import CalendarTrouble
from tests.searching import QUICK

sensible = st.sampled_from(
    (
        "60s",
        "1h",
        "16GiB",
        "100Mbit",
        "yes",
        "no",
        "0,1",
        "a,b",
        "Mon-Fri 9:00-17:00",
        "UTC",
        "/x.ics",
        "83",
        "2",
    )
)
anything = st.one_of(
    sensible,
    st.text(max_size=20),
    st.from_regex(r"[0-9]{1,400}(\.[0-9]+)?\s?([KMGT]i?B|[KMGT]bit|[smhd])?", fullmatch=True),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.lists(st.one_of(st.text(max_size=5), st.integers(), st.booleans()), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)
changes = st.dictionaries(st.sampled_from([key.name for key in KEYS]), anything, min_size=1, max_size=4)


@QUICK
@given(changes=changes)
def test_a_change_makes_terms_that_read_as_they_were_written_or_is_refused(changes: dict[str, Any]) -> None:
    try:
        terms = changed(OwnersTerms(), changes)
    except TermsTrouble:
        return
    assert parse_terms(written(terms)) == terms


property_lines = st.one_of(
    st.text(alphabet="ABDEHIMNOPRSTUVWXYZ:;=,-0123456789TZ \"'", max_size=40),
    st.builds(
        "DTSTART{}:{}".format,
        st.sampled_from(("", ";VALUE=DATE", ";TZID=Europe/Berlin", ";TZID=X")),
        st.from_regex(r"20[0-4]\d(0[1-9]|1[0-3])[0-3]\d(T[0-2]\d[0-5]\d00Z?)?", fullmatch=True),
    ),
    st.from_regex(r"DURATION:P[0-9]{0,12}[WD]?(T[0-9]{0,9}[HMS])?", fullmatch=True),
    st.builds(
        "RRULE:FREQ={};{}={}".format,
        st.sampled_from(("DAILY", "WEEKLY", "MONTHLY", "YEARLY", "HOURLY")),
        st.sampled_from(("INTERVAL", "COUNT", "UNTIL", "BYDAY", "BYMONTHDAY", "WKST")),
        st.sampled_from(
            ("1", "2", "0", "9999999", "MO,WE", "-1FR", "2TU", "31", "-1", "20270101", "20270101T000000Z")
        ),
    ),
)


@QUICK
@given(lines=st.lists(property_lines, max_size=5), now_s=st.integers(1_700_000_000, 1_900_000_000))
def test_a_calendar_gives_a_forecast_or_is_refused(lines: list[str], now_s: int) -> None:
    body = "\n".join(["BEGIN:VCALENDAR", "BEGIN:VEVENT", *lines, "END:VEVENT", "END:VCALENDAR"])
    try:
        found = times(body, now_s, now_s + 16 * DAY_S)
    except CalendarTrouble:
        return
    busy = busy_spans(
        (Appointment(begin_s=begin, end_s=end, floating=floating) for begin, end, floating in found),
        machines_own_zone,
    )
    forecast = Times(machines_own_zone, busy=busy).forecast(now_s)
    assert forecast.changes_s is None or forecast.changes_s > now_s
