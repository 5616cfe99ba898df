"""GPU-seconds are counted as they pass, by minute and lab."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpunion.coordinator.usage.meter import GAP_MAX_S, Meter
from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.domain.nodes.node import Node, NodePhase
from gpunion.domain.nodes.withheld import GpuPhase, WithheldGpu
from gpunion.engine.coordinator.state import CampusState
from gpunion.ports.usage_history import UsageSum
from tests.builders.values import a_grant, a_node, a_run, facts

ALPHA = NodeId("alpha")


class Scene:
    def __init__(self, node: Node, *runs: Run) -> None:
        self.state = CampusState.from_records((node, *runs))
        self.meter = Meter()
        self.meter.begin(0.0, self.state)

    def at(self, now_s: float, record: Node | Run) -> None:
        self.state.put(record)
        self.meter.changed(now_s, self.state, [ALPHA])


def a_lender(gpus: int = 2, lab: str = "vision", **changes: object) -> Node:
    return a_node("alpha", of=facts(gpus=gpus, lab=lab), **changes)


def a_guest(*gpus: int, **changes: object) -> Run:
    running = a_run("job-e1", phase=RunPhase.RUNNING, started_s=0.0, grant=a_grant(*gpus))
    return replace(running, **changes)  # type: ignore[arg-type]


def totals(sums: list[UsageSum]) -> tuple[float, float, int]:
    return (
        sum(one.lent_gpu_s for one in sums),
        sum(one.used_gpu_s for one in sums),
        sum(one.departures for one in sums),
    )


def test_lent_and_used_are_counted_between_changes() -> None:
    scene = Scene(a_lender())
    scene.at(30.0, a_guest(0))
    scene.at(90.0, a_guest(0, phase=RunPhase.ENDED, ended_s=90.0))
    assert totals(scene.meter.take(100.0)) == (200.0, 60.0, 0)


def test_each_minute_has_its_part() -> None:
    scene = Scene(a_lender(gpus=1))
    sums = scene.meter.take(150.0)
    assert [(one.at_s, one.lent_gpu_s) for one in sums] == [(0, 60.0), (60, 60.0), (120, 30.0)]
    assert scene.meter.take(150.0) == []


def test_a_machine_that_is_taken_back_lends_no_more_and_is_counted_once() -> None:
    scene = Scene(a_lender())
    scene.at(60.0, a_lender(phase=NodePhase.RECLAIMED, departures=1))
    scene.at(70.0, a_lender(phase=NodePhase.RECLAIMED, departures=1))
    assert totals(scene.meter.take(120.0)) == (120.0, 0.0, 1)


@pytest.mark.parametrize(
    ("changes", "lent_gpu_s"),
    [
        ({"phase": NodePhase.PAUSED}, 120.0),
        ({"phase": NodePhase.RECLAIMING}, 120.0),
        ({"phase": NodePhase.RECLAIMED}, 0.0),
        ({"phase": NodePhase.SILENT}, 0.0),
        ({"isolated_because": "it said what cannot be"}, 0.0),
    ],
)
def test_a_machine_lends_until_it_is_taken_back(changes: dict[str, Any], lent_gpu_s: float) -> None:
    """Paused, nobody new comes there; its GPUs are lent all the same, as everywhere else that counts them."""
    scene = Scene(a_lender(**changes))
    assert totals(scene.meter.take(60.0)) == (lent_gpu_s, 0.0, 0)


def test_what_a_guest_still_has_is_lent_whatever_was_said_since() -> None:
    scene = Scene(a_lender(), a_guest(0))
    scene.at(0.0, a_lender(phase=NodePhase.SILENT))
    assert totals(scene.meter.take(60.0)) == (60.0, 60.0, 0)


def test_a_gpu_that_is_withheld_is_not_lent() -> None:
    scene = Scene(a_lender(withheld=(WithheldGpu(index=1, phase=GpuPhase.RECLAIMED),)))
    assert totals(scene.meter.take(60.0)) == (60.0, 0.0, 0)


def test_a_parked_guest_uses_nothing() -> None:
    scene = Scene(a_lender(), a_guest(0, parked_s=0.0))
    assert totals(scene.meter.take(60.0)) == (120.0, 0.0, 0)


def test_time_that_nobody_watched_is_not_counted() -> None:
    scene = Scene(a_lender())
    assert scene.meter.take(GAP_MAX_S + 1) == []
    assert totals(scene.meter.take(GAP_MAX_S + 11)) == (20.0, 0.0, 0)


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    scene = Scene(a_lender())
    scene.meter.take(60.0)
    assert scene.meter.take(30.0) == []
    assert totals(scene.meter.take(90.0)) == (60.0, 0.0, 0)


def test_what_could_not_be_written_waits() -> None:
    scene = Scene(a_lender())
    scene.meter.put_back(scene.meter.take(60.0))
    assert totals(scene.meter.take(90.0)) == (180.0, 0.0, 0)
