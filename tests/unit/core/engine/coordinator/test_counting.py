"""What the planner need not look at, and what it must."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.run import RunPhase
from gpunion.engine.coordinator.state import only_counts
from tests.builders import a_job, a_node, a_run

RUNNING = a_job(phase=JobPhase.RUNNING)


def test_numbering_a_save_and_learning_its_cost_only_count():
    assert only_counts(a_run(), replace(a_run(), checkpoints=7))
    assert only_counts(RUNNING, replace(RUNNING, cost=replace(RUNNING.cost, stall_s=9.0)))


@pytest.mark.parametrize(
    ("former", "record"),
    [
        (None, a_run()),
        (a_run(), a_run(phase=RunPhase.LEAVING)),
        (a_run(), a_run(wanted_by_s=5.0)),
        (None, RUNNING),
        (RUNNING, replace(RUNNING, phase=JobPhase.LEAVING)),
        (a_job(), replace(a_job(), cost=replace(a_job().cost, stall_s=9.0))),  # it waits
        (a_node(), a_node()),
    ],
)
def test_anything_else_is_looked_at(former, record):
    assert not only_counts(former, record)
