"""A coordinator's clock may be wrong when it starts: by years, and both ways."""

from __future__ import annotations

from pathlib import Path

from gpunion.adapters.usage_history import SqliteUsageHistory
from gpunion.adapters.usage_history.keeping import FOLLOWS_S
from gpunion.ports.usage_history import HOUR_S, HOURS_KEPT_S, HistoryBatch
from tests.contract.usage_history.builders import (
    BEGAN_S,
    a_minute,
    a_phase,
    a_point,
    asked,
    gpu_minutes,
    hours,
    in_the_file,
    minutes,
    of,
    phases,
)

DAY_S = 24 * HOUR_S
TWO_YEARS_S = 2 * HOURS_KEPT_S


def everything(history: SqliteUsageHistory) -> tuple[int, int, int, int]:
    points, changes = len(gpu_minutes(history)), len(phases(history, "alpha"))
    return len(minutes(history)), len(hours(history)), points, changes


def a_history_of_a_day(history: SqliteUsageHistory) -> float:
    history.add(
        HistoryBatch(
            sums=[a_minute(number) for number in range(24 * 60)],
            points=[a_point(number) for number in range(24 * 60)],
            phases=[a_phase(0.0, phase="paused"), a_phase(10.0)],
            open=["alpha"],
        )
    )
    now_s = float(BEGAN_S + DAY_S)
    history.forget_old(now_s=now_s)
    return now_s


def test_a_coordinator_that_starts_years_ahead_takes_no_history_with_it(history: SqliteUsageHistory) -> None:
    now_s = a_history_of_a_day(history)
    before = everything(history)
    for minute in range(60):
        at_s = now_s + TWO_YEARS_S + 60 * minute
        history.add(HistoryBatch(sums=[a_minute(int(at_s - BEGAN_S) // 60)], open=["alpha"]))
        history.forget_old(now_s=at_s)
    assert everything(history) == (before[0] + 60, before[1] + 1, *before[2:])
    history.forget_old(now_s=now_s)  # somebody set it right
    assert everything(history) == (before[0] + 60, before[1] + 1, *before[2:])


def test_what_lies_ahead_of_the_clock_is_told_to_nobody(history: SqliteUsageHistory) -> None:
    now_s = a_history_of_a_day(history)
    ahead = int(now_s + TWO_YEARS_S - BEGAN_S) // 60
    history.add(
        HistoryBatch(
            sums=[a_minute(ahead)], points=[a_point(ahead)], phases=[a_phase(60.0 * ahead)], open=["alpha"]
        )
    )
    assert len(history.minutes(since_s=0, until_s=now_s)) == 24 * 60
    assert len(history.phases(since_s=0, until_s=now_s, open=["alpha"])) == 2
    told = history.points(asked(60, until_s=now_s, node="alpha", open=["alpha"]))
    assert len(told.points) == 24 * 60


def test_a_clock_that_stays_ahead_is_followed_in_time(tmp_path: Path) -> None:
    """After half a day there still are minutes of the week before, after a day there are none. Here it
    forgets every ten minutes, which spares a test many writes."""
    history = SqliteUsageHistory(tmp_path / "usage.db", follows_s=10 * FOLLOWS_S)
    now_s = a_history_of_a_day(history)
    for minute in range(0, 24 * 60, 10):
        history.forget_old(now_s=now_s + TWO_YEARS_S + 60 * minute)
        if minute == 12 * 60:
            assert minutes(history)
    assert minutes(history) == []
    assert hours(history)


def test_a_clock_that_goes_back_forgets_nothing_and_is_waited_for(history: SqliteUsageHistory) -> None:
    now_s = a_history_of_a_day(history)
    before = everything(history)
    for at_s in (0.0, now_s - TWO_YEARS_S, now_s - DAY_S, now_s):
        history.forget_old(now_s=at_s)
        assert everything(history) == before
    for minute in range(0, 9 * 24 * 60, 10):
        history.forget_old(now_s=now_s + 60 * minute)
    assert minutes(history) == []
    assert hours(history)


def test_a_file_of_before_begins_with_what_it_knew(history: SqliteUsageHistory, tmp_path: Path) -> None:
    now_s = a_history_of_a_day(history)
    in_the_file(tmp_path, "DROP TABLE own_clock")
    history.add(of(a_minute(int(now_s + TWO_YEARS_S - BEGAN_S) // 60)))
    history.forget_old(now_s=now_s + TWO_YEARS_S)
    assert len(minutes(history)) == 24 * 60 + 1
