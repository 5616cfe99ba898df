"""Which jobs a list has, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from gpunion.coordinator.api.job_lists import listed_jobs
from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.held import HeldJob
from gpunion.domain.jobs.job import JobPhase
from gpunion.engine.coordinator.state import CampusState
from gpunion.wire.v1.job_requests import JobsQuery
from tests.builders.values import a_job, a_run

STATE = CampusState.from_records(
    (
        a_job("job-1", phase=JobPhase.SUCCEEDED, epoch=1),
        a_job("job-2", phase=JobPhase.RUNNING, epoch=1),
        a_job("job-3", phase=JobPhase.RUNNING, epoch=1),
        a_job("job-4"),
        a_job("job-5", phase=JobPhase.MIGRATING, epoch=1),
        a_job("job-6", phase=JobPhase.BETWEEN, epoch=1),
        HeldJob(id=JobId("job-7"), why="cannot be read"),
        HeldJob(id=JobId("job-8"), why="cannot be read", given_up=True),
        a_run("job-2-e1", started_s=0.0),
        a_run("job-3-e1", started_s=0.0, node_id=NodeId("beta")),
    )
)


@pytest.mark.parametrize(
    ("asked", "numbers"),
    [
        ({}, "87654321"),
        ({"order": "oldest"}, "12345678"),
        ({"phase": ["running"]}, "32"),
        ({"phase": ["pending", "migrating", "between"], "order": "oldest"}, "456"),
        ({"phase": ["migrating"]}, ""),  # its program never began: it only waits
        ({"phase": ["between", "succeeded"]}, "61"),
        ({"phase": ["held"]}, "7"),
        ({"phase": ["cancelled"]}, "8"),
        ({"node": ["alpha"]}, "2"),
        ({"node": ["beta", "alpha", "alpha", "gamma"]}, "32"),
        ({"node": ["alpha"], "phase": ["pending"]}, ""),
    ],
)
def test_a_list_has_what_was_asked_for_and_nothing_else(asked: dict[str, Any], numbers: str) -> None:
    assert listed_jobs(STATE, JobsQuery(**asked)) == [f"job-{number}" for number in numbers]
