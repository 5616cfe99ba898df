"""What is kept of lending and use: sums by minute and by hour, and nothing for ever."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gpunion.adapters.usage_history import SqliteUsageHistory
from gpunion.ports.usage_history import (
    HOUR_S,
    HOURS_KEPT_S,
    MINUTE_S,
    MINUTES_KEPT_S,
    BusySum,
    GpuPoint,
    HistoryBatch,
    HistoryFault,
    PhaseSince,
    UsageSum,
)

BEGAN_S = 1_000 * HOUR_S


@pytest.fixture
def history(tmp_path: Path) -> SqliteUsageHistory:
    return SqliteUsageHistory(tmp_path / "usage.db")


def a_minute(number: int = 0, lab: str = "vision", departures: int = 0) -> UsageSum:
    return UsageSum(
        at_s=BEGAN_S + number * MINUTE_S, lab=lab, lent_gpu_s=120.0, used_gpu_s=60.0, departures=departures
    )


def of(*sums: UsageSum) -> HistoryBatch:
    return HistoryBatch(sums=sums)


def test_minutes_add_up_to_hours(history: SqliteUsageHistory) -> None:
    history.add(of(a_minute(0), a_minute(1, departures=1), a_minute(61)), now_s=BEGAN_S)
    first, second = history.hours(since_s=0)
    assert (first.at_s, first.lent_gpu_s, first.used_gpu_s, first.departures) == (BEGAN_S, 240.0, 120.0, 1)
    assert (second.at_s, second.lent_gpu_s) == (BEGAN_S + HOUR_S, 120.0)
    assert history.began_s() == BEGAN_S


def test_what_comes_later_of_a_minute_is_added_to_it(history: SqliteUsageHistory) -> None:
    for _ in range(2):
        history.add(of(a_minute()), now_s=BEGAN_S)
    [minute] = history.minutes(since_s=BEGAN_S)
    assert minute.lent_gpu_s == 240.0


def test_minutes_are_forgotten_after_a_week_and_hours_after_a_year(history: SqliteUsageHistory) -> None:
    history.add(of(a_minute()), now_s=BEGAN_S)
    history.add(of(), now_s=BEGAN_S + MINUTES_KEPT_S + 1)
    assert (len(history.minutes(since_s=0)), len(history.hours(since_s=0))) == (0, 1)
    history.add(of(), now_s=BEGAN_S + HOURS_KEPT_S + 1)
    assert history.hours(since_s=0) == []
    assert history.began_s() is None


def test_it_opens_to_its_user_alone(history: SqliteUsageHistory, tmp_path: Path) -> None:
    history.add(of(a_minute()), now_s=BEGAN_S)
    assert stat.S_IMODE((tmp_path / "usage.db").stat().st_mode) == 0o600


def test_a_damaged_file_is_a_fault_with_its_name(history: SqliteUsageHistory, tmp_path: Path) -> None:
    (tmp_path / "usage.db").write_bytes(b"no database at all" * 1000)
    with pytest.raises(HistoryFault, match=r"usage\.db"):
        history.add(of(a_minute()), now_s=BEGAN_S)


def test_a_month_of_a_campus_of_twelve_labs_is_small(history: SqliteUsageHistory, tmp_path: Path) -> None:
    """A week of minutes for each lab and hours for a month."""
    labs = [f"laboratory-{number}" for number in range(12)]
    history.add(
        of(*(a_minute(number, lab) for number in range(7 * 24 * 60) for lab in labs)),
        now_s=BEGAN_S + MINUTES_KEPT_S,
    )
    assert (tmp_path / "usage.db").stat().st_size < 20 * 1024**2


def a_point(minute: int = 0, node: str = "alpha", **changes: Any) -> GpuPoint:
    point = GpuPoint(
        at_s=BEGAN_S + minute * MINUTE_S,
        node=node,
        index=0,
        uuid="GPU-1",
        model="A100",
        seen_s=60.0,
        utilisation=0.5,
        memory_share=0.5,
        temperature_c=71.0,
        power_w=250.0,
    )
    return replace(point, **changes)


def test_what_gpus_did_is_kept_by_the_minute_and_by_the_hour(history: SqliteUsageHistory) -> None:
    busy, idle = a_point(3, utilisation=1.0), a_point(4, utilisation=0.0, temperature_c=80.0)
    history.add(HistoryBatch(points=[busy]), now_s=BEGAN_S)
    history.add(HistoryBatch(points=[idle]), now_s=BEGAN_S)
    assert history.gpu_minutes(since_s=BEGAN_S, node="alpha") == [busy, idle]
    hour = a_point(0, utilisation=0.5, seen_s=120.0, temperature_c=80.0)
    assert history.gpu_hours(since_s=0) == history.gpu_hours(since_s=0, node="alpha") == [hour]
    assert history.gpu_minutes(since_s=BEGAN_S + 4 * MINUTE_S, node="alpha") == [idle]
    assert history.gpu_minutes(since_s=0, node="beta") == []


def test_what_nobody_saw_stays_unknown_and_what_no_driver_can_mean_is_cut(
    history: SqliteUsageHistory,
) -> None:
    unseen = a_point(0, utilisation=None, memory_share=None, temperature_c=None, power_w=None)
    absurd = a_point(1, utilisation=7.0, memory_share=-1.0, temperature_c=1e9, power_w=1e12)
    history.add(HistoryBatch(points=[unseen, absurd]), now_s=BEGAN_S)
    first, second = history.gpu_minutes(since_s=0, node="alpha")
    assert first == unseen
    assert (second.utilisation, second.memory_share, second.temperature_c) == (1.0, 0.0, 200.0)
    assert second.power_w == 65534.0


def test_minutes_of_gpus_are_forgotten_after_a_week_and_hours_after_a_year(
    history: SqliteUsageHistory,
) -> None:
    history.add(HistoryBatch(points=[a_point()]), now_s=BEGAN_S)
    history.add(of(), now_s=BEGAN_S + MINUTES_KEPT_S + 2 * HOUR_S)
    assert (len(history.gpu_minutes(since_s=0, node="alpha")), len(history.gpu_hours(since_s=0))) == (0, 1)
    history.add(of(), now_s=BEGAN_S + HOURS_KEPT_S + 48 * HOUR_S)
    assert history.gpu_hours(since_s=0) == []


def test_how_much_gpus_worked_adds_up(history: SqliteUsageHistory) -> None:
    one = BusySum(at_s=BEGAN_S, lab="vision", watched_gpu_s=100.0, own_gpu_s=30.0, guest_gpu_s=20.0)
    for _ in range(2):
        history.add(HistoryBatch(busy=[one]), now_s=BEGAN_S)
    [found] = history.busy(since_s=BEGAN_S)
    assert (found.watched_gpu_s, found.own_gpu_s, found.guest_gpu_s) == (200.0, 60.0, 40.0)


def test_phases_are_told_from_the_one_that_it_was_in_on(history: SqliteUsageHistory) -> None:
    phases = [
        PhaseSince(at_s=BEGAN_S + at_s, node=node, phase=phase)
        for at_s, node, phase in (
            (0.0, "alpha", "sharing"), (50.0, "alpha", "reclaimed"), (100.0, "alpha", "sharing"),
            (60.0, "beta", "sharing"),
        )
    ]  # fmt: skip
    history.add(HistoryBatch(phases=phases), now_s=BEGAN_S)
    found = history.phases(since_s=BEGAN_S + 70.0)
    assert [(one.node, one.phase) for one in found] == [
        ("alpha", "reclaimed"), ("beta", "sharing"), ("alpha", "sharing"),
    ]  # fmt: skip
    history.add(HistoryBatch(forget=["alpha"]), now_s=BEGAN_S)
    assert [one.node for one in history.phases(since_s=0)] == ["beta"]


def test_it_never_holds_more_than_it_may_and_forgets_the_oldest_minutes_first(tmp_path: Path) -> None:
    most_bytes = 256 * 1024
    history = SqliteUsageHistory(tmp_path / "usage.db", most_bytes)
    for day in range(0, 300, 10):
        minutes = range(day * 24 * 60, (day + 1) * 24 * 60, 60)
        points = [a_point(minute, f"node-{number}") for minute in minutes for number in range(20)]
        history.add(HistoryBatch(points=points), now_s=BEGAN_S)
    assert (tmp_path / "usage.db").stat().st_size <= most_bytes * 1.2
    assert history.gpu_hours(since_s=0)


def test_a_month_of_fifty_four_machines_has_less_than_fifty_megabytes(
    history: SqliteUsageHistory, tmp_path: Path
) -> None:
    """Four GPUs each: a week of minutes, as different as they can be, and a month of hours. Three machines
    stand for all: their rows have nothing in common."""
    chance, machines, week, now_s = Random(1), 3, 7 * 24 * 60, BEGAN_S + 31 * 24 * HOUR_S
    for index in range(4):
        for machine in range(machines):
            node = f"node-{machine}"
            hours = [_at(chance, a_point(60 * hour, node, index=index)) for hour in range(24 * 24)]
            minutes = [
                _at(chance, a_point(24 * 24 * 60 + minute, node, index=index)) for minute in range(week)
            ]
            history.add(HistoryBatch(points=[*hours, *minutes]), now_s=now_s)
    assert (tmp_path / "usage.db").stat().st_size * 54 / machines < 50 * 1024**2


def _at(chance: Random, point: GpuPoint) -> GpuPoint:
    return replace(
        point,
        utilisation=chance.random(),
        memory_share=chance.random(),
        temperature_c=float(chance.randint(30, 90)),
        power_w=float(chance.randint(20, 400)),
    )
