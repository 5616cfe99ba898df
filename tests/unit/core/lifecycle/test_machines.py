"""The state machines: complete, strict, and drawn as they are."""

from __future__ import annotations

from enum import StrEnum
from itertools import product
from typing import Any

import pytest

from gpunion.domain.jobs.checkpoint import CheckpointPhase
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.migration import MigrationPhase
from gpunion.domain.jobs.run import RunPhase
from gpunion.domain.nodes.node import NodePhase
from gpunion.lifecycle.diagrams import MACHINES
from gpunion.lifecycle.job import JOB
from gpunion.lifecycle.state_machine import IllegalTransition, Machine

PHASES: dict[str, type[StrEnum]] = {
    "job": JobPhase,
    "run": RunPhase,
    "node": NodePhase,
    "checkpoint": CheckpointPhase,
    "migration": MigrationPhase,
}
machines = pytest.mark.parametrize("machine", MACHINES.values(), ids=list(MACHINES))


def test_every_machine_is_listed() -> None:
    assert set(MACHINES) == set(PHASES)


@machines
def test_every_phase_can_be_reached(machine: Machine[Any]) -> None:
    reached = set(machine.initial)
    while new := {e.target for e in machine.edges if e.source in reached} - reached:
        reached |= new
    assert reached == set(PHASES[machine.name])


@machines
def test_exactly_the_steps_of_the_table_are_allowed(machine: Machine[Any]) -> None:
    allowed = {(edge.source, edge.target) for edge in machine.edges}
    for source, target in product(PHASES[machine.name], repeat=2):
        assert machine.allows(source, target) is ((source, target) in allowed)
        if (source, target) in allowed or source == target:
            assert machine.check("it", source, target) is target
        else:
            with pytest.raises(IllegalTransition):
                machine.check("it", source, target)


@machines
def test_no_step_is_listed_twice_and_each_says_why(machine: Machine[Any]) -> None:
    steps = [(edge.source, edge.target) for edge in machine.edges]
    assert len(steps) == len(set(steps))
    assert all(edge.label for edge in machine.edges)


@machines
def test_the_diagram_shows_every_step(machine: Machine[Any]) -> None:
    lines = machine.mermaid().splitlines()
    sources = {edge.source for edge in machine.edges}
    ends = {phase.value for phase in PHASES[machine.name] if phase not in sources}
    assert lines[0] == "stateDiagram-v2"
    assert {line.strip() for line in lines[1:]} == {
        *(f"[*] --> {phase.value}" for phase in machine.initial),
        *(f"{e.source.value} --> {e.target.value}: {e.label}" for e in machine.edges),
        *(f"{end} --> [*]" for end in ends),
    }


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("job", {JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED}),
        ("run", {RunPhase.ENDED}),
        ("node", set()),
        ("checkpoint", {CheckpointPhase.DURABLE, CheckpointPhase.FAILED}),
        ("migration", {MigrationPhase.DONE, MigrationPhase.ABANDONED}),
    ],
)
def test_what_is_over_stays_over(name: str, ends: set[StrEnum]) -> None:
    sources = {edge.source for edge in MACHINES[name].edges}
    assert set(PHASES[name]) - sources == ends


def test_a_step_that_is_not_in_the_table_says_whose_and_which() -> None:
    with pytest.raises(IllegalTransition, match="job j7 cannot go from succeeded to running"):
        JOB.check("j7", JobPhase.SUCCEEDED, JobPhase.RUNNING)
