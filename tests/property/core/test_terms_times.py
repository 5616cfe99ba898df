"""Hours and appointments, held against the standard library's calendar: also on the days clocks change."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from gpunion.policy.terms.civil import DAY_NAMES, DAY_S, Zone, date_of, day_of, days_in, moment_s, weekday
from gpunion.policy.terms.forecast import Times
from gpunion.policy.terms.hours import parse_hours
from tests.searching import FEW, QUICK

# Half an hour of summer time, none at all, and a change at midnight are the odd ones.
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "America/Asuncion")
# Around the changes of 2026 in these zones, and anywhere else in a few years.
NEAR_CHANGES = (
    datetime(2026, 3, 29, 1, tzinfo=UTC),
    datetime(2026, 10, 25, 1, tzinfo=UTC),
    datetime(2026, 3, 8, 7, tzinfo=UTC),
    datetime(2026, 11, 1, 6, tzinfo=UTC),
    datetime(2026, 4, 4, 15, tzinfo=UTC),
    datetime(2026, 10, 3, 15, 30, tzinfo=UTC),
)
moments = st.one_of(
    st.builds(
        lambda change, off: int(change.timestamp()) + off,
        st.sampled_from(NEAR_CHANGES),
        st.integers(-2 * DAY_S, 2 * DAY_S),
    ),
    st.integers(1_700_000_000, 1_900_000_000),
)
clock_times = st.builds(lambda h, m: f"{h:02d}:{m:02d}", st.integers(0, 23), st.sampled_from((0, 1, 30, 59)))


@st.composite
def entries(draw: st.DrawFn) -> str:
    days = draw(st.sampled_from(("", "Mon", "Mon-Fri", "Sat-Sun", "Fri-Mon", "Sun", "Tue-Thu")))
    begin, end = draw(clock_times), draw(clock_times)
    times = f"{begin}-{end}" if begin != end and draw(st.booleans()) else ""
    return f"{days} {times}".strip() or "Wed"


hours_texts = st.lists(entries(), min_size=1, max_size=3).map(", ".join)


def zone_of(name: str) -> Zone:
    info = ZoneInfo(name)

    def offset_s(at_s: float) -> float:
        offset = datetime.fromtimestamp(at_s, info).utcoffset()
        assert offset is not None
        return offset.total_seconds()

    return offset_s


def covers(text: str, at_s: float, zone: str) -> bool:
    """Says the same as `WeeklyHours.cover`, by the standard library and entry by entry."""
    now = datetime.fromtimestamp(at_s, ZoneInfo(zone)).replace(tzinfo=None)
    for entry in text.split(", "):
        words = entry.split()
        times = words[-1] if ":" in words[-1] else "00:00-24:00"
        days = words[0] if ":" not in words[0] else "Mon-Sun"
        first, _, last = days.partition("-")
        begin, end = (_minutes(part) for part in times.split("-"))
        for back in (0, 1):  # an evening reaches into the day after
            day = now - timedelta(days=back)
            span = (DAY_NAMES.index(last or first) - DAY_NAMES.index(first)) % 7
            if (day.weekday() - DAY_NAMES.index(first)) % 7 <= span:
                since = now.hour * 60 + now.minute + back * 1440
                if begin <= since < (end if end > begin else end + 1440):
                    return True
    return False


def _minutes(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)


@QUICK
@given(text=hours_texts, at_s=moments, zone=st.sampled_from(ZONES))
def test_hours_cover_what_the_wall_clock_says(text: str, at_s: int, zone: str) -> None:
    assert parse_hours(text).cover(at_s, zone_of(zone)) is covers(text, at_s, zone)


@QUICK
@given(text=hours_texts, at_s=moments, zone=st.sampled_from(ZONES), share=st.floats(0.0, 1.0))
def test_until_the_next_change_nothing_changes_and_then_it_does(
    text: str, at_s: int, zone: str, share: float
) -> None:
    hours, wall = parse_hours(text), zone_of(zone)
    before = hours.cover(at_s, wall)
    change_s = hours.next_change_s(at_s, wall)
    if change_s is None:
        change_s, later = at_s + 9.0 * DAY_S, before
    else:
        later = not before
    assert at_s < change_s <= at_s + 9 * DAY_S
    assert hours.cover(at_s + share * (change_s - at_s - 0.001), wall) is before
    assert hours.cover(change_s - 0.001, wall) is before
    assert hours.cover(change_s, wall) is later


@QUICK
@given(day=st.integers(-700_000, 2_900_000))
def test_dates_are_those_of_the_standard_library(day: int) -> None:
    known = date(1970, 1, 1) + timedelta(days=day)
    assert date_of(day) == (known.year, known.month, known.day)
    assert day_of(known.year, known.month, known.day) == day
    assert weekday(day) == known.weekday()
    assert 28 <= days_in(known.year, known.month) <= 31


@QUICK
@given(at_s=moments, zone=st.sampled_from(ZONES))
def test_a_time_on_the_wall_is_the_first_moment_that_shows_it(at_s: int, zone: str) -> None:
    wall = zone_of(zone)
    found_s = moment_s(at_s + wall(at_s), wall)
    assert found_s + wall(found_s) == at_s + wall(at_s)
    assert found_s <= at_s


@FEW
@given(text=hours_texts, at_s=moments, zone=st.sampled_from(ZONES), start_h=st.integers(0, 100))
def test_a_forecast_holds_until_it_says(text: str, at_s: int, zone: str, start_h: int) -> None:
    wall = zone_of(zone)
    begin_s = at_s + start_h * 3600.0
    times = Times(wall, parse_hours(text), ((begin_s, begin_s + 5 * 3600),))
    now = times.forecast(at_s)
    assert bool(now.because) is not now.lent
    if now.changes_s is not None:
        assert times.forecast(now.changes_s - 0.001).lent is now.lent
        assert times.forecast(now.changes_s).lent is not now.lent
