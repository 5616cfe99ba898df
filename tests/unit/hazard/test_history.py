from __future__ import annotations

import json

import pytest

from gpunion.policy.hazard.buckets import (
    AGE_FROM_S,
    AGES,
    DAY_S,
    HOUR_S,
    WEEK_S,
    age_class,
    ages_of,
    hour_of_week,
    hours_of,
    week_position_s,
)
from gpunion.policy.hazard.history import HALF_LIFE_S, LentSpan, NodeHistory, departure_cell
from tests.unit.hazard.records import MONDAY_S, a_span, office_owner


def test_a_week_begins_on_monday_at_midnight_of_the_owner() -> None:
    assert hour_of_week(MONDAY_S) == 0
    assert hour_of_week(MONDAY_S - 1) == 167
    assert hour_of_week(MONDAY_S, utc_offset_s=8 * HOUR_S) == 8
    assert hour_of_week(MONDAY_S, utc_offset_s=-5 * HOUR_S) == 163


def test_a_moment_a_hair_before_monday_is_not_the_169th_hour() -> None:
    assert 0 <= week_position_s(MONDAY_S - 1e-13) < WEEK_S
    assert week_position_s(-1e-12, -MONDAY_S) < WEEK_S


def test_hours_cut_a_span_without_loss() -> None:
    pieces = list(hours_of(MONDAY_S + 1800, MONDAY_S + 2.25 * HOUR_S))
    assert [hour for hour, _, _ in pieces] == [0, 1, 2]
    assert sum(to_s - from_s for _, from_s, to_s in pieces) == pytest.approx(1.75 * HOUR_S)


def test_ages_cut_a_span_where_the_classes_meet() -> None:
    pieces = list(ages_of(100.0, 700.0, free_since_s=0.0))
    assert [(age, to_s) for age, _, to_s in pieces] == [(0, 120.0), (1, 300.0), (2, 600.0), (3, 700.0)]


def test_the_oldest_class_has_no_end() -> None:
    assert age_class(1e9) == AGES - 1
    assert list(ages_of(1e6, 1e9, free_since_s=0.0)) == [(AGES - 1, 1e6, 1e9)]
    assert age_class(AGE_FROM_S[3]) == 3


def test_a_departure_on_the_hour_belongs_to_the_hour_that_ended() -> None:
    assert departure_cell(a_span(9, 1), 0.0) == (9, age_class(3599.0))


def test_a_span_must_begin_before_it_ends() -> None:
    with pytest.raises(ValueError):
        LentSpan(from_s=10.0, to_s=5.0, departed=False, free_since_s=0.0)
    with pytest.raises(ValueError):
        LentSpan(from_s=float("nan"), to_s=5.0, departed=False, free_since_s=0.0)


def test_only_the_last_part_of_a_span_departs() -> None:
    span = a_span(0, 10)
    middle = MONDAY_S + 5 * HOUR_S
    first, last = span.within(MONDAY_S, middle), span.within(middle, middle + DAY_S)
    assert first is not None
    assert last is not None
    assert (first.departed, last.departed) == (False, True)
    assert last.free_since_s == span.free_since_s
    assert span.within(0.0, MONDAY_S) is None


def test_what_is_a_half_life_old_counts_half() -> None:
    old = a_span(0, 1)
    fortnight_h = HALF_LIFE_S / HOUR_S
    history = NodeHistory().absorbed([old, a_span(fortnight_h, 1)])
    # Both are in the first hour of a Monday, two weeks apart.
    assert history.departures[0] == pytest.approx(1.5)
    assert history.ever_departures == 2
    assert history.faded_by(history.as_of_s + HALF_LIFE_S) == pytest.approx(0.5)


def test_years_of_uptime_cost_no_more_than_a_fortnight_and_sum_to_the_same() -> None:
    weeks = 30
    whole = NodeHistory().absorbed([a_span(5.5, weeks * 168, departed=False)])
    pieces = [a_span(5.5 + 168 * week, 168, departed=False, free_since_h=5.5) for week in range(weeks)]
    assert NodeHistory().absorbed(pieces).lent_s == pytest.approx(whole.lent_s)


def test_nothing_to_learn_changes_nothing() -> None:
    history = NodeHistory().absorbed(office_owner(1, 3))
    assert history.absorbed([]) is history


def test_a_history_survives_being_written_down() -> None:
    history = NodeHistory(utc_offset_s=3600.0).absorbed(office_owner(1, 9))
    written = json.dumps(history.to_plain())
    assert NodeHistory.from_plain(json.loads(written)) == history
    assert len(written) < 12_000


@pytest.mark.parametrize(
    ("key", "value"), [("as_of_s", "soon"), ("lent_s", [1.0]), ("departures", None), ("ever_lent_s", True)]
)
def test_a_damaged_record_is_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=key):
        NodeHistory.from_plain({**NodeHistory().to_plain(), key: value})
