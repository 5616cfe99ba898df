"""What is kept of lending and use: sums by minute and by hour, and nothing for ever."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gpunion.adapters.usage_history import SqliteUsageHistory
from gpunion.ports.usage_history import (
    HOUR_S,
    HOURS_KEPT_S,
    MINUTES_KEPT_S,
    BusySum,
    HistoryBatch,
    HistoryFault,
)
from tests.contract.usage_history.builders import (
    AT_ONCE_S,
    BEGAN_S,
    LATER_S,
    a_minute,
    hours,
    in_the_file,
    minutes,
    of,
)


def test_minutes_add_up_to_hours(history: SqliteUsageHistory) -> None:
    history.add(of(a_minute(0), a_minute(1, departures=1), a_minute(61)))
    first, second = hours(history)
    assert (first.at_s, first.lent_gpu_s, first.used_gpu_s, first.departures) == (BEGAN_S, 240.0, 120.0, 1)
    assert (second.at_s, second.lent_gpu_s) == (BEGAN_S + HOUR_S, 120.0)
    assert history.began_s() == BEGAN_S


def test_it_began_with_its_first_minute_and_not_with_the_hour_of_that(history: SqliteUsageHistory) -> None:
    history.add(of(a_minute(43), a_minute(200)))
    assert history.began_s() == BEGAN_S + 43 * 60


def test_what_comes_later_of_a_minute_is_added_to_it(history: SqliteUsageHistory) -> None:
    for _ in range(2):
        history.add(of(a_minute()))
    [minute] = minutes(history)
    assert minute.lent_gpu_s == 240.0


def test_how_much_gpus_worked_adds_up(history: SqliteUsageHistory) -> None:
    one = BusySum(at_s=BEGAN_S, lab="vision", watched_gpu_s=100.0, own_gpu_s=30.0, guest_gpu_s=20.0)
    for _ in range(2):
        history.add(HistoryBatch(busy=[one]))
    [found] = history.busy(since_s=BEGAN_S, until_s=LATER_S)
    assert (found.watched_gpu_s, found.own_gpu_s, found.guest_gpu_s) == (200.0, 60.0, 40.0)


def test_minutes_are_forgotten_after_a_week_and_hours_after_a_year(tmp_path: Path) -> None:
    history = SqliteUsageHistory(tmp_path / "usage.db", follows_s=AT_ONCE_S)
    history.add(of(a_minute()))
    history.forget_old(now_s=BEGAN_S + MINUTES_KEPT_S)
    assert len(minutes(history)) == 1  # who asks for all of it is answered a moment later
    history.forget_old(now_s=BEGAN_S + MINUTES_KEPT_S + 300)
    assert (len(minutes(history)), len(hours(history))) == (0, 1)
    history.forget_old(now_s=BEGAN_S + HOURS_KEPT_S + 1)
    assert hours(history) == []
    assert history.began_s() is None


def test_it_opens_to_its_user_alone(history: SqliteUsageHistory, tmp_path: Path) -> None:
    history.add(of(a_minute()))
    assert stat.S_IMODE((tmp_path / "usage.db").stat().st_mode) == 0o600


def test_a_month_of_a_campus_of_twelve_labs_is_small(history: SqliteUsageHistory, tmp_path: Path) -> None:
    """A week of minutes for each lab and hours for a month."""
    labs = [f"laboratory-{number}" for number in range(12)]
    history.add(of(*(a_minute(number, lab) for number in range(7 * 24 * 60) for lab in labs)))
    assert (tmp_path / "usage.db").stat().st_size < 20 * 1024**2


def test_what_is_forgotten_is_room_for_others_on_the_disk(tmp_path: Path) -> None:
    history = SqliteUsageHistory(tmp_path / "usage.db", follows_s=AT_ONCE_S)
    history.add(of(*(a_minute(number) for number in range(7 * 24 * 60))))
    before_bytes = (tmp_path / "usage.db").stat().st_size
    history.forget_old(now_s=BEGAN_S + 2 * HOURS_KEPT_S)
    assert (tmp_path / "usage.db").stat().st_size < before_bytes / 5


def test_figures_that_could_not_be_kept_whole_are_not_kept_in_part(
    history: SqliteUsageHistory, tmp_path: Path
) -> None:
    """Whoever gave them gives them again. Here the last of many tables does not take its part."""
    history.add(of())
    in_the_file(tmp_path, "DROP TABLE gpu_rows")
    in_the_file(tmp_path, "CREATE VIEW gpu_rows AS SELECT 1")
    batch = HistoryBatch(sums=[a_minute()], forget=["alpha"])
    for _ in range(2):
        with pytest.raises(HistoryFault):
            history.add(batch)
    in_the_file(tmp_path, "DROP VIEW gpu_rows")
    history.add(batch)
    assert [one.lent_gpu_s for one in minutes(history)] == [120.0]


def test_trouble_with_what_is_old_leaves_what_is_new(history: SqliteUsageHistory, tmp_path: Path) -> None:
    history.add(of(a_minute()))
    in_the_file(tmp_path, "DROP TABLE own_clock")
    in_the_file(tmp_path, "CREATE VIEW own_clock AS SELECT 1 AS one, 2.0 AS now_s")
    with pytest.raises(HistoryFault):
        history.forget_old(now_s=BEGAN_S)
    assert [one.lent_gpu_s for one in minutes(history)] == [120.0]
