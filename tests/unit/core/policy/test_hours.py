"""What an owner's hours say, what is said of those that cannot be read, and the forecast of both."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from gpunion.policy.terms.busy import Appointment, busy_spans
from gpunion.policy.terms.forecast import Times
from gpunion.policy.terms.hours import parse_hours

BERLIN = ZoneInfo("Europe/Berlin")


def berlin(at_s: float) -> float:
    offset = datetime.fromtimestamp(at_s, BERLIN).utcoffset()
    assert offset is not None
    return offset.total_seconds()


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


def test_appointments_that_meet_are_one_and_floating_ones_are_of_the_wall() -> None:
    wall_s = at("2026-03-10T12:00") + 3600.0
    spans = busy_spans(
        [
            Appointment(begin_s=wall_s, end_s=wall_s + 3600, floating=True),
            Appointment(begin_s=at("2026-03-10T11:00"), end_s=at("2026-03-10T12:00")),
            Appointment(begin_s=at("2026-03-10T09:00"), end_s=at("2026-03-10T09:00")),
            Appointment(begin_s=at("2026-03-10T15:00"), end_s=at("2026-03-10T16:00")),
        ],
        berlin,
    )
    assert spans == (
        (at("2026-03-10T11:00"), at("2026-03-10T13:00")),
        (at("2026-03-10T15:00"), at("2026-03-10T16:00")),
    )


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
    appointment = (at("2026-03-10T21:00"), at("2026-03-10T22:00"))
    times = Times(berlin, parse_hours("Mon-Fri 19:00-08:00, Sat-Sun"), (appointment,))
    evening = times.forecast(at("2026-03-10T20:00"))
    assert (evening.lent, evening.changes_s) == (True, at("2026-03-10T21:00"))
    meeting = times.forecast(at("2026-03-10T21:30"))
    assert meeting.because == "it is its owner's by their calendar, again from Tue 22:00"
    noon = times.forecast(at("2026-03-11T12:00"))
    assert noon.because == "it is not lent at this hour, again from Wed 19:00"
    thursdays = Times(zone=times.zone, hours=parse_hours("Thu 12:00-13:00"))
    evening = thursdays.forecast(at("2026-03-05T21:33"))
    assert evening.because == "it is not lent at this hour, again from Thu 2026-03-12 12:00"
    friday = thursdays.forecast(at("2026-03-06T21:33"))
    assert friday.because == "it is not lent at this hour, again from Thu 12:00"
    weekend = times.forecast(at("2026-03-14T12:00"))
    assert weekend.changes_s == at("2026-03-16T00:00")  # the night to Monday is Sunday's, and Sunday ends


def test_no_hours_are_all_hours() -> None:
    for text in ("", "always", "Mon-Sun"):
        forecast = Times(berlin, parse_hours(text)).forecast(at("2026-03-29T02:30"))
        assert (forecast.lent, forecast.changes_s) == (True, None)
