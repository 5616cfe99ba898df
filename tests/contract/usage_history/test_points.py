"""What is kept and told of single GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

from gpunion.adapters.usage_history import SqliteUsageHistory
from gpunion.ports.usage_history import (
    HOUR_S,
    HOURS_KEPT_S,
    MINUTE_S,
    MINUTES_KEPT_S,
    GpuPoint,
    HistoryBatch,
)
from tests.contract.usage_history.builders import (
    AT_ONCE_S,
    BEGAN_S,
    a_point,
    asked,
    gpu_hours,
    gpu_minutes,
    in_the_file,
)


def test_what_gpus_did_is_kept_by_the_minute_and_by_the_hour(history: SqliteUsageHistory) -> None:
    busy, idle = a_point(3, utilisation=1.0), a_point(4, utilisation=0.0, temperature_c=80.0)
    history.add(HistoryBatch(points=[busy]))
    history.add(HistoryBatch(points=[idle]))
    assert gpu_minutes(history, since_s=BEGAN_S) == [busy, idle]
    hour = a_point(0, utilisation=0.5, seen_s=120.0, temperature_c=80.0)
    assert gpu_hours(history) == gpu_hours(history, node="alpha") == [hour]
    assert gpu_minutes(history, since_s=BEGAN_S + 4 * MINUTE_S) == [idle]
    assert gpu_minutes(history, "beta") == []


def test_what_nobody_saw_stays_unknown_and_what_no_driver_can_mean_is_cut(
    history: SqliteUsageHistory,
) -> None:
    unseen = a_point(0, utilisation=None, memory_share=None, temperature_c=None, power_w=None)
    absurd = a_point(1, utilisation=7.0, memory_share=-1.0, temperature_c=1e9, power_w=1e12)
    history.add(HistoryBatch(points=[unseen, absurd]))
    first, second = gpu_minutes(history)
    assert first == unseen
    assert (second.utilisation, second.memory_share, second.temperature_c) == (1.0, 0.0, 200.0)
    assert second.power_w == 65534.0


def test_a_time_in_which_nothing_was_seen_has_no_points(history: SqliteUsageHistory) -> None:
    history.add(HistoryBatch(points=[a_point(0), a_point(50 * 60)]))
    told = history.points(asked(HOUR_S, since_s=BEGAN_S + 5 * MINUTE_S))
    assert [point.at_s for point in told.points] == [BEGAN_S, BEGAN_S + 50 * HOUR_S]
    assert (told.since_s, told.left_out) == (BEGAN_S + 5 * MINUTE_S, False)


def test_the_newest_are_told_from_a_moment_on_of_which_all_are_told(history: SqliteUsageHistory) -> None:
    names = ("alpha", "beta", "gamma")
    history.add(HistoryBatch(points=[a_point(60 * hour, name) for hour in range(100) for name in names]))
    told = history.points(asked(HOUR_S, since_s=BEGAN_S, most=20))
    assert [(point.at_s - BEGAN_S) // HOUR_S for point in told.points[::3]] == list(range(94, 100))
    assert {point.node for point in told.points[:3]} == set(names)
    assert (told.since_s, told.left_out) == (BEGAN_S + 94 * HOUR_S, True)


def test_of_more_gpus_than_may_be_told_some_are(history: SqliteUsageHistory) -> None:
    history.add(HistoryBatch(points=[a_point(0, f"node-{number}") for number in range(9)]))
    told = history.points(asked(HOUR_S, since_s=BEGAN_S, most=5))
    assert (len(told.points), told.since_s, told.left_out) == (5, BEGAN_S, True)


def test_no_more_rows_are_read_than_points_are_told(history: SqliteUsageHistory, tmp_path: Path) -> None:
    """Those of before are not even looked at: not one of them is what a row should be."""
    old = SqliteUsageHistory(tmp_path / "usage.db")
    for day in range(40):
        old.add(HistoryBatch(points=[a_point(24 * 60 * day, f"node-{number}") for number in range(5)]))
    spoilt = "UPDATE gpu_rows SET points = 'spoilt' WHERE at_s < ?"
    in_the_file(tmp_path, spoilt, BEGAN_S + 35 * 24 * HOUR_S)
    told = history.points(asked(HOUR_S, most=20))
    assert (len(told.points), told.left_out) == (20, True)
    assert history.damaged_rows() == 0


def test_minutes_of_gpus_are_forgotten_after_a_week_and_hours_after_a_year(tmp_path: Path) -> None:
    history = SqliteUsageHistory(tmp_path / "usage.db", follows_s=AT_ONCE_S)
    history.add(HistoryBatch(points=[a_point()]))
    history.forget_old(now_s=BEGAN_S + MINUTES_KEPT_S + 2 * HOUR_S)
    assert (len(gpu_minutes(history)), len(gpu_hours(history))) == (0, 1)
    history.forget_old(now_s=BEGAN_S + HOURS_KEPT_S + 48 * HOUR_S)
    assert gpu_hours(history) == []


def test_it_never_holds_more_than_it_may_and_forgets_the_oldest_minutes_first(tmp_path: Path) -> None:
    most_bytes = 256 * 1024
    history = SqliteUsageHistory(tmp_path / "usage.db", most_bytes)
    for day in range(0, 300, 10):
        minutes = range(day * 24 * 60, (day + 1) * 24 * 60, 60)
        points = [a_point(minute, f"node-{number}") for minute in minutes for number in range(20)]
        history.add(HistoryBatch(points=points))
        history.forget_old(now_s=BEGAN_S)
    assert (tmp_path / "usage.db").stat().st_size <= most_bytes * 1.2
    assert gpu_hours(history)


def test_a_month_of_fifty_four_machines_has_less_than_fifty_megabytes(
    history: SqliteUsageHistory, tmp_path: Path
) -> None:
    """Four GPUs each: a week of minutes, as different as they can be, and a month of hours. Three machines
    stand for all: their rows have nothing in common."""
    chance, machines, week = Random(1), 3, 7 * 24 * 60
    for index in range(4):
        for machine in range(machines):
            node = f"node-{machine}"
            hours = [_at(chance, a_point(60 * hour, node, index=index)) for hour in range(24 * 24)]
            minutes = [
                _at(chance, a_point(24 * 24 * 60 + minute, node, index=index)) for minute in range(week)
            ]
            history.add(HistoryBatch(points=[*hours, *minutes]))
    history.forget_old(now_s=BEGAN_S + 31 * 24 * HOUR_S)
    assert (tmp_path / "usage.db").stat().st_size * 54 / machines < 50 * 1024**2


def _at(chance: Random, point: GpuPoint) -> GpuPoint:
    return replace(
        point,
        utilisation=chance.random(),
        memory_share=chance.random(),
        temperature_c=float(chance.randint(30, 90)),
        power_w=float(chance.randint(20, 400)),
    )
