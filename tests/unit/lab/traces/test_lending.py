from __future__ import annotations

from pathlib import Path

import pytest

from gpunion.lab.traces.lending import demand_of_jobs, read_lending
from gpunion.lab.traces.pools import spans_of_pools
from gpunion.lab.traces.records import Demand, TraceJob
from tests.unit.traces.files import example

MINUTE_S = 60.0


def spans_of(idle_min: float, *levels: tuple[float, int], total: int = 8) -> list[tuple[float, float, bool]]:
    """(from, to, departed) in minutes, from (minute, running) pairs."""
    demand = [Demand(pool="p", at_s=at * MINUTE_S, total=total, running=running) for at, running in levels]
    return [
        (span.from_s / MINUTE_S, span.to_s / MINUTE_S, span.departed)
        for span in spans_of_pools(demand, idle_min * MINUTE_S)["p"]
    ]


def test_a_rise_in_an_idle_pool_is_a_reclaim() -> None:
    assert spans_of(0, (0, 2), (60, 4), (90, 4)) == [(0, 60, True), (60, 90, False)]


def test_a_fall_is_none() -> None:
    assert spans_of(0, (0, 4), (60, 2), (90, 2)) == [(0, 90, False)]


def test_nothing_is_lent_while_the_owner_uses_everything() -> None:
    assert spans_of(0, (0, 8), (60, 2), (90, 8), (120, 8)) == [(60, 90, True)]


def test_a_gpu_is_lent_only_after_it_was_idle_long_enough() -> None:
    assert spans_of(30, (0, 8), (60, 2), (80, 4), (200, 4)) == [(90, 200, False)]


def test_a_rise_to_what_ran_a_moment_ago_takes_back_what_was_not_lent_yet() -> None:
    assert spans_of(30, (0, 4), (100, 2), (110, 4), (200, 4)) == [(30, 200, False)]


def test_the_same_rise_later_is_a_reclaim() -> None:
    assert spans_of(30, (0, 4), (100, 2), (140, 4), (200, 4)) == [(30, 140, True), (140, 200, False)]


def test_a_burst_above_everything_recent_is_a_reclaim_at_every_step() -> None:
    spans = spans_of(30, (0, 0), (100, 1), (101, 2), (102, 3), (200, 3))
    assert [departed for _, _, departed in spans] == [True, True, True, False]


def test_the_highest_of_the_recent_past_is_remembered_not_the_last() -> None:
    assert spans_of(30, (0, 6), (50, 1), (60, 2), (65, 1), (70, 5), (200, 5)) == [(30, 200, False)]


def test_pools_do_not_mix() -> None:
    demand = [
        Demand(pool=pool, at_s=at_s, total=4, running=running)
        for at_s, pool, running in [(0, "a", 1), (0, "b", 3), (60, "a", 2), (120, "b", 3), (120, "a", 2)]
    ]
    spans = spans_of_pools(demand, 0.0)
    assert [span.departed for span in spans["a"]] == [True, False]
    assert [span.departed for span in spans["b"]] == [False]


def test_jobs_become_demand_up_to_the_most_that_ever_ran() -> None:
    def a_job(start_s: float, duration_s: float | None, gpus: int, share: float = 1.0) -> TraceJob:
        return TraceJob(
            id="j",
            group="g",
            submit_s=start_s,
            start_s=None,
            duration_s=duration_s,
            gpus=gpus,
            gpu_share=share,
        )

    jobs = [a_job(0, 100, 2), a_job(50, 100, 1, 0.5), a_job(50, 100, 4), a_job(70, None, 9), a_job(80, 5, 0)]
    levels = [(one.at_s, one.running, one.total) for one in demand_of_jobs(jobs)]
    assert levels == [(0, 2, 6.5), (50, 6.5, 6.5), (100, 4.5, 6.5), (150, 0, 6.5)]


def test_of_nodes_without_names_the_last_to_come_goes_first(tmp_path: Path) -> None:
    units = read_lending(example(tmp_path, "skypilot changes")).units
    assert sorted((span.from_s, span.to_s, span.departed) for span in units["zone-a"]) == [
        (0.0, 3600.0, True),
        (0.0, 7200.0, False),
    ]
    assert [(span.from_s, span.to_s, span.departed) for span in units["zone-b"]] == [(600.0, 1200.0, True)]


def test_a_campaign_that_was_switched_off_was_not_reclaimed(tmp_path: Path) -> None:
    lending = read_lending(example(tmp_path, "bamboo counts"))
    assert lending.departures == 1
    assert {span.to_s - span.from_s for span in lending.units["all"]} == {3600.0, 7200.0}


def test_readings_that_step_back_in_time_are_passed_over(tmp_path: Path) -> None:
    assert read_lending(example(tmp_path, "bamboo instances")).departures == 2


def test_named_nodes_are_followed_by_name(tmp_path: Path) -> None:
    spans = read_lending(example(tmp_path, "bamboo nodes")).units["all"]
    assert [(span.from_s, span.to_s, span.departed) for span in spans] == [
        (0.0, 60.0, True),
        (0.0, 120.0, False),
    ]


def test_the_zone_of_a_file_that_has_one_is_used(tmp_path: Path) -> None:
    lending = read_lending(example(tmp_path, "google lifetimes"))
    assert lending.utc_offset_s == -8 * 3600
    assert sorted(lending.units) == ["zone-a/small", "zone-b/large"]
    assert lending.departures == 2


def test_a_log_in_takes_its_own_room_back(tmp_path: Path) -> None:
    units = read_lending(example(tmp_path, "log-ins")).units
    assert [span.to_s - span.from_s for span in units["room-1"]] == [3600.0]
    assert [span.to_s - span.from_s for span in units["room-2"]] == [7200.0]


def test_a_node_is_up_between_failures_and_until_its_system_was_last_heard_of(tmp_path: Path) -> None:
    units = read_lending(example(tmp_path, "lanl failures")).units
    assert [(span.from_s, span.to_s, span.departed) for span in units["3.001"]] == [(2000, 9000, True)]
    assert [(span.from_s, span.to_s, span.departed) for span in units["3.002"]] == [(1600, 9500, False)]


@pytest.mark.parametrize("idle_min", [0, 30])
def test_demand_of_jobs_is_read_like_demand(idle_min: float, tmp_path: Path) -> None:
    lending = read_lending(example(tmp_path, "philly jobs"), idle_min * MINUTE_S)
    assert lending.departure_word == "reclaim"
    assert list(lending.units) == ["lab"]
