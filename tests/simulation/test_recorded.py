"""What is told of a simulated campus is what the simulator counted, and what happens when it is run again."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from gpunion.domain.nodes.node import NodePhase
from gpunion.lab.reference.everyday import few_machines
from gpunion.lab.replay.again import waits_again
from gpunion.lab.replay.owners import owner_plans
from gpunion.lab.replay.recorded import PastMachine, Recorded
from gpunion.lab.replay.recording import record
from gpunion.sim.streams import Streams
from tests.builders.values import facts


def test_a_month_s_gpu_hours_are_those_that_the_simulator_counted() -> None:
    month = record(few_machines(30.0, 0.4, seed=1), figures="sums")
    labs = month.usage["labs"]
    told_s = 3600.0 * month.usage["used_gpu_h"]
    metered_s = 3600.0 * sum(lab["busy_gpu_h"] for lab in labs)
    open_s = 3600.0 * sum(lab["open_gpu_h"] for lab in labs)
    assert month.true_used_gpu_s > 1e6
    # A start and an end are heard of some milliseconds later; a join, and a loss, some seconds.
    assert told_s == pytest.approx(month.true_used_gpu_s, rel=2e-4)
    assert metered_s == pytest.approx(month.true_used_gpu_s, rel=2e-4)
    assert open_s == pytest.approx(month.true_lent_gpu_s, rel=5e-3)


def test_an_open_campus_run_again_unchanged_waits_as_it_did() -> None:
    week = record(few_machines(7.0, 2.0, seed=1), figures="full")
    again = waits_again(week.past, week.past.machines, seed=1)
    assert median(week.past.waits_s()) > 3600.0
    assert again.median_s == pytest.approx(median(week.past.waits_s()), rel=0.2)


def test_a_machine_that_is_open_comes_and_goes_as_it_did() -> None:
    phases = (
        (-100.0, NodePhase.RECLAIMED), (50.0, NodePhase.SHARING), (80.0, NodePhase.RECLAIMING),
        (90.0, NodePhase.RECLAIMED), (200.0, NodePhase.SHARING), (300.0, NodePhase.SILENT),
    )  # fmt: skip
    machine = PastMachine(name="alpha", facts=facts(gpus=1, lab="vision"), phases=phases)
    past = Recorded(length_s=1000.0, counted_s=1000.0, began_hour=0, jobs=(), labs=(), machines=(machine,))
    [plan] = owner_plans(past, [machine], Streams(1))
    assert [(act.at_s, act.do) for act in plan.acts] == [
        (30.0, "kill"), (90.0, "resume"), (120.0, "reclaim"), (240.0, "resume"), (340.0, "kill"),
    ]  # fmt: skip
    assert owner_plans(past, [replace(machine, phases=())], Streams(1))[0].acts == ()
