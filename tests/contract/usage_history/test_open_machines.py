"""What is kept of single machines by their owners' leave, and that it goes with it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from gpunion.adapters.usage_history import SqliteUsageHistory, open_machines
from gpunion.ports.usage_history import HOUR_S, HOURS_KEPT_S, HistoryBatch, PhaseSince
from tests.contract.usage_history.builders import (
    AT_ONCE_S,
    BEGAN_S,
    a_phase,
    a_point,
    gpu_hours,
    gpu_minutes,
    in_the_file,
    phases,
)


def changed(*new: PhaseSince, open: Collection[str] = ("alpha", "beta")) -> HistoryBatch:
    return HistoryBatch(phases=new, open=open)


def test_phases_are_told_from_the_one_that_it_was_in_on(history: SqliteUsageHistory) -> None:
    history.add(
        changed(
            a_phase(0.0), a_phase(50.0, phase="reclaimed"), a_phase(100.0), a_phase(60.0, "beta", "sharing")
        )
    )
    found = phases(history, "alpha", "beta", since_s=BEGAN_S + 70.0)
    assert [(one.node, one.phase) for one in found] == [
        ("alpha", "reclaimed"), ("beta", "sharing"), ("alpha", "sharing"),
    ]  # fmt: skip
    history.add(HistoryBatch(forget=["alpha"], open=["beta"]))
    assert {one.node for one in phases(history, "alpha", "beta")} == {"beta"}


def test_of_an_owner_who_takes_it_back_nothing_single_stays(history: SqliteUsageHistory) -> None:
    """Also where nobody says so: a coordinator that was not there only knows who is open now."""
    history.add(HistoryBatch(phases=[a_phase(0.0)], open=["alpha"], points=[a_point(), a_point(0, "beta")]))
    history.add(HistoryBatch())
    assert phases(history, "alpha") == []
    assert gpu_minutes(history) == []
    assert {point.node for point in gpu_hours(history)} == {"beta"}


def test_what_a_machine_says_after_its_owner_took_it_back_is_kept(history: SqliteUsageHistory) -> None:
    history.add(HistoryBatch(phases=[a_phase(0.0)], open=["alpha"], points=[a_point()]))
    history.add(HistoryBatch(forget=["alpha"], points=[a_point(7)]))
    assert gpu_minutes(history) == [a_point(7)]


def test_who_takes_it_back_and_gives_it_anew_begins_anew(history: SqliteUsageHistory) -> None:
    history.add(HistoryBatch(phases=[a_phase(0.0)], open=["alpha"], points=[a_point()]))
    history.add(HistoryBatch(forget=["alpha"], phases=[a_phase(60.0)], open=["alpha"]))
    assert phases(history, "alpha") == [a_phase(60.0)]
    assert gpu_minutes(history) == []


def test_a_file_of_before_says_by_its_phases_who_was_open(
    history: SqliteUsageHistory, tmp_path: Path
) -> None:
    history.add(HistoryBatch(phases=[a_phase(0.0)], open=["alpha"], points=[a_point()]))
    in_the_file(tmp_path, "DROP TABLE open_machines")
    in_the_file(tmp_path, "PRAGMA user_version = 0")
    history.add(HistoryBatch(open=["alpha"]))
    assert len(phases(history, "alpha")) == len(gpu_hours(history)) == 1
    in_the_file(tmp_path, "DROP TABLE open_machines")
    in_the_file(tmp_path, "PRAGMA user_version = 0")
    history.add(HistoryBatch())
    assert phases(history, "alpha") == []
    assert gpu_hours(history) == []


def test_what_could_not_be_removed_yet_is_told_to_nobody(history: SqliteUsageHistory) -> None:
    history.add(HistoryBatch(phases=[a_phase(0.0)], open=["alpha"], points=[a_point(), a_point(0, "beta")]))
    assert phases(history, "beta") == []
    assert {point.node for point in gpu_hours(history, open=["gamma"])} == {"beta"}
    assert {point.node for point in gpu_hours(history, open=["alpha"])} == {"alpha", "beta"}


def test_a_machine_that_comes_and_goes_each_minute_takes_nobody_elses(history: SqliteUsageHistory) -> None:
    most = open_machines.PHASES_A_NODE
    restless = [
        a_phase(60.0 * number, "beta", ("paused", "sharing")[number % 2]) for number in range(most + 90)
    ]
    history.add(changed(a_phase(0.0)))
    history.add(changed(*restless))
    found = phases(history, "alpha", "beta")
    assert [one for one in found if one.node == "alpha"] == [a_phase(0.0)]
    assert [one for one in found if one.node == "beta"] == restless[-most:]


def test_a_machine_that_stays_as_it_is_for_years_is_known_to_be_so(tmp_path: Path) -> None:
    history = SqliteUsageHistory(tmp_path / "usage.db", follows_s=AT_ONCE_S)
    history.add(changed(a_phase(0.0, phase="paused"), a_phase(HOUR_S), a_phase(0.0, "beta")))
    history.forget_old(now_s=BEGAN_S + 3 * HOURS_KEPT_S)
    assert phases(history, "alpha", "beta") == [a_phase(0.0, "beta"), a_phase(HOUR_S)]
