"""When machines came and went."""

from __future__ import annotations

from pathlib import Path

from gpunion.adapters.usage_history import SqliteUsageHistory
from gpunion.adapters.usage_history.phases import PHASES_A_NODE
from gpunion.ports.usage_history import HOUR_S, HOURS_KEPT_S, HistoryBatch, PhaseSince
from tests.contract.usage_history.builders import (
    AT_ONCE_S,
    BEGAN_S,
    a_phase,
    phases,
)


def changed(*new: PhaseSince) -> HistoryBatch:
    return HistoryBatch(phases=new)


def test_phases_are_told_from_the_one_that_it_was_in_on(history: SqliteUsageHistory) -> None:
    history.add(
        changed(
            a_phase(0.0), a_phase(50.0, phase="reclaimed"), a_phase(100.0), a_phase(60.0, "beta", "sharing")
        )
    )
    found = phases(history, since_s=BEGAN_S + 70.0)
    assert [(one.node, one.phase) for one in found] == [
        ("alpha", "reclaimed"), ("beta", "sharing"), ("alpha", "sharing"),
    ]  # fmt: skip
    history.add(HistoryBatch(forget=["alpha"]))
    assert {one.node for one in phases(history)} == {"beta"}


def test_a_machine_that_comes_and_goes_each_minute_takes_nobody_elses(history: SqliteUsageHistory) -> None:
    most = PHASES_A_NODE
    restless = [
        a_phase(60.0 * number, "beta", ("paused", "sharing")[number % 2]) for number in range(most + 90)
    ]
    history.add(changed(a_phase(0.0)))
    history.add(changed(*restless))
    found = phases(history)
    assert [one for one in found if one.node == "alpha"] == [a_phase(0.0)]
    assert [one for one in found if one.node == "beta"] == restless[-most:]


def test_a_machine_that_stays_as_it_is_for_years_is_known_to_be_so(tmp_path: Path) -> None:
    history = SqliteUsageHistory(tmp_path / "usage.db", follows_s=AT_ONCE_S)
    history.add(changed(a_phase(0.0, phase="paused"), a_phase(HOUR_S), a_phase(0.0, "beta")))
    history.forget_old(now_s=BEGAN_S + 3 * HOURS_KEPT_S)
    assert phases(history) == [a_phase(0.0, "beta"), a_phase(HOUR_S)]
