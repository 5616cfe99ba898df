"""Which directories a sweep must leave alone."""

from __future__ import annotations

from dataclasses import replace

from gpunion.coordinator.locations.collection import needed_by
from gpunion.domain.jobs.job import JobPhase
from tests.builders import a_job, a_spec


def test_directories_of_jobs_that_may_still_run_are_needed() -> None:
    jobs = [a_job(phase.value, phase=phase, spec=replace(a_spec(), bundle=phase.value)) for phase in JobPhase]
    over = {"succeeded", "failed", "cancelled"}
    assert needed_by([*jobs, a_job("none")]) == {phase.value for phase in JobPhase} - over
