"""Whatever lies in the file, or is given to it, takes nobody else's figures with it."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest

from gpunion.adapters.usage_history import SqliteUsageHistory
from gpunion.ports.usage_history import BusySum, HistoryBatch, HistoryFault, UsageSum
from tests.contract.usage_history.builders import (
    BEGAN_S,
    LATER_S,
    a_minute,
    a_phase,
    a_point,
    gpu_hours,
    gpu_minutes,
    hours,
    in_the_file,
    minutes,
    of,
    phases,
)


def test_a_damaged_file_is_a_fault_with_its_name(history: SqliteUsageHistory, tmp_path: Path) -> None:
    (tmp_path / "usage.db").write_bytes(b"no database at all" * 1000)
    with pytest.raises(HistoryFault, match=r"usage\.db"):
        history.add(of(a_minute()))


SPOILT = {
    "words": "damaged",
    "a number": 7,
    "other bytes": b"damaged",
    "half a row": zlib.compress(bytes(10)),
    "a flood": zlib.compress(bytes(2**24)),
}


@pytest.mark.parametrize("what", SPOILT)
def test_a_row_that_is_none_is_begun_anew_and_told_once(
    history: SqliteUsageHistory, tmp_path: Path, what: str
) -> None:
    history.add(HistoryBatch(points=[a_point(0), a_point(0, "beta")]))
    in_the_file(tmp_path, "UPDATE gpu_rows SET points = ? WHERE node = 'alpha'", SPOILT[what])
    for number in range(1, 4):
        history.add(HistoryBatch(points=[a_point(number), a_point(number, "beta")], sums=[a_minute(number)]))
    assert gpu_minutes(history) == [a_point(number) for number in range(1, 4)]
    assert len(gpu_minutes(history, "beta")) == 4
    assert len(minutes(history)) == 3
    assert history.damaged_rows() == 2  # its hour and its day


def test_a_row_that_is_none_keeps_nobody_from_reading_others(
    history: SqliteUsageHistory, tmp_path: Path
) -> None:
    history.add(HistoryBatch(points=[a_point(0), a_point(0, "beta"), a_point(0, "gamma")]))
    in_the_file(tmp_path, "UPDATE gpu_rows SET points = 'damaged' WHERE node = 'alpha'")
    in_the_file(tmp_path, "UPDATE gpu_rows SET uuid = x'ff00ff' WHERE node = 'beta'")
    for _ in range(2):
        assert {point.node for point in gpu_hours(history)} == {"gamma"}
    assert history.damaged_rows() == 2


@pytest.mark.parametrize("value", ["damaged", b"damaged", float("inf"), -5.0])
@pytest.mark.parametrize("column", ["lent_gpu_s", "used_gpu_s", "departures"])
def test_a_sum_that_is_none_is_left_out_and_others_go_on(
    history: SqliteUsageHistory, tmp_path: Path, column: str, value: object
) -> None:
    history.add(of(a_minute(0), a_minute(1)))
    in_the_file(tmp_path, f"UPDATE usage_sums SET {column} = ? WHERE at_s = ?", value, BEGAN_S)
    assert [one.at_s for one in minutes(history)] == [BEGAN_S + 60]
    history.add(of(a_minute(0), a_minute(2)))
    assert all(isinstance(one.lent_gpu_s, float) for one in [*minutes(history), *hours(history)])
    assert minutes(history)[-1] == a_minute(2)


def test_names_that_are_no_text_stop_nobody(history: SqliteUsageHistory, tmp_path: Path) -> None:
    history.add(
        HistoryBatch(sums=[a_minute()], phases=[a_phase(0.0)], open=["alpha"], points=[a_point(0, "beta")])
    )
    no_text = "CAST(x'ffff' AS TEXT)"
    for statement in (
        f"UPDATE phases SET node = {no_text}",
        f"UPDATE open_machines SET node = {no_text}",
        f"UPDATE usage_sums SET lab = {no_text}",
        f"UPDATE gpu_rows SET model = {no_text}",
    ):
        in_the_file(tmp_path, statement)
    history.add(HistoryBatch(sums=[a_minute(1)], open=["alpha"]))
    assert phases(history, "alpha") == []
    assert in_the_file(tmp_path, "SELECT count(*) FROM phases") == [(0,)]
    assert len(minutes(history)) == 2
    assert len(gpu_hours(history)) == 1


@pytest.mark.parametrize("at_s", ["damaged", -1e18, 1e18, float("inf")])
def test_moments_that_are_none_are_told_to_nobody(
    history: SqliteUsageHistory, tmp_path: Path, at_s: object
) -> None:
    history.add(of(a_minute(0), a_minute(1)))
    for table in ("usage_sums", "phases", "own_clock", "gpu_rows"):
        row: dict[str, tuple[Any, ...]] = {
            "usage_sums": (60, at_s, "vision", 1.0, 1.0, 0),
            "phases": ("alpha", at_s, "sharing"),
            "own_clock": (1, at_s),
            "gpu_rows": (3600, at_s, "alpha", 0, "GPU-1", "A100", b""),
        }
        marks = ", ".join("?" * len(row[table]))
        in_the_file(tmp_path, f"INSERT OR REPLACE INTO {table} VALUES ({marks})", *row[table])
    history.add(HistoryBatch(phases=[a_phase(5.0)], open=["alpha"]))
    history.forget_old(now_s=BEGAN_S + 60.0)
    assert [one.at_s for one in minutes(history)] == [BEGAN_S, BEGAN_S + 60]
    assert history.began_s() == BEGAN_S
    assert phases(history, "alpha")[-1] == a_phase(5.0)
    assert gpu_hours(history) == []


NAN = float("nan")


@pytest.mark.parametrize(
    "poison",
    [
        HistoryBatch(points=[a_point(0, uuid="\ud800")]),
        HistoryBatch(points=[a_point(0, power_w=NAN)]),
        HistoryBatch(points=[a_point(0, seen_s=float("inf"))]),
        HistoryBatch(points=[a_point(0, index=2**70)]),
        HistoryBatch(sums=[UsageSum(at_s=BEGAN_S, lab="\ud800", lent_gpu_s=1.0)]),
        HistoryBatch(
            busy=[BusySum(at_s=BEGAN_S, lab="x", watched_gpu_s=NAN, own_gpu_s=0.0, guest_gpu_s=0.0)]
        ),
        HistoryBatch(phases=[a_phase(NAN)], open=["alpha"]),
    ],
)
def test_a_figure_that_cannot_be_written_keeps_no_other_from_it(
    history: SqliteUsageHistory, poison: HistoryBatch
) -> None:
    good = HistoryBatch(
        sums=[*poison.sums, a_minute()],
        busy=[
            *poison.busy,
            BusySum(at_s=BEGAN_S, lab="y", watched_gpu_s=1.0, own_gpu_s=0.0, guest_gpu_s=0.0),
        ],
        points=[*poison.points, a_point(0, "beta")],
        phases=[*poison.phases, a_phase(1.0, "beta")],
        open=["alpha", "beta"],
    )
    history.add(good)
    assert minutes(history) == [a_minute()]
    assert [one.lab for one in history.busy(since_s=0, until_s=LATER_S)] == ["y"]
    assert gpu_minutes(history, "beta") == [a_point(0, "beta")]
    assert phases(history, "alpha", "beta") == [a_phase(1.0, "beta")]
    assert history.damaged_rows() > 0
