"""What the same program took before, for whoever hands it in again."""

from __future__ import annotations

from dataclasses import replace

from gpunion.coordinator.usage.past_use import JOBS_COUNTED, used_before, used_by
from gpunion.domain.ids import JobId
from gpunion.domain.jobs.job import JobSpec
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.jobs.use import RunUse
from tests.builders.headquarters import Headquarters
from tests.builders.values import a_spec, facts

TRAIN = replace(a_spec(), command=("python", "train.py", "--epochs", "3"))


def took(memory_bytes: int) -> RunUse:
    return RunUse(for_s=100.0, cpu_s=50.0, memory_bytes=memory_bytes)


def campus() -> Headquarters:
    here = Headquarters(now_s=1000.0)
    here.joins("alpha", facts(gpus=1))
    here.joins("beta", facts(gpus=1))
    return here


def runs(here: Headquarters, name: str, spec: JobSpec, used: RunUse | None) -> None:
    here.submits(name, spec)
    here.started(f"{name}-e1")
    here.ended(f"{name}-e1", EndReason.FINISHED, used=used)


def test_a_job_used_what_its_runs_did() -> None:
    here = campus()
    here.submits("job", TRAIN)
    here.started("job-e1")
    here.ended("job-e1", EndReason.GUEST_LOST, used=took(7))
    here.started("job-e2")
    here.ended("job-e2", EndReason.FINISHED, used=took(5))
    found = used_by(here.state, here.state.jobs[JobId("job")])
    assert found == RunUse(for_s=200.0, cpu_s=100.0, memory_bytes=7)


def test_the_same_program_of_the_same_user_is_found_whatever_its_arguments() -> None:
    here = campus()
    runs(here, "job-1", TRAIN, took(7))
    again = replace(TRAIN, command=("python", "train.py", "--epochs", "5"))
    assert used_before(here.state, again) == (took(7), 1)
    for other in (
        replace(TRAIN, owner="somebody else"),
        replace(TRAIN, command=("python", "other.py")),
        replace(TRAIN, image="pytorch"),
        replace(TRAIN, request=replace(TRAIN.request, gpus=2)),
    ):
        assert used_before(here.state, other) is None


def test_the_newest_count_and_only_what_was_measured() -> None:
    here = campus()
    runs(here, "job-0", TRAIN, took(1000))
    for number in range(1, JOBS_COUNTED + 1):
        runs(here, f"job-{number}", TRAIN, took(number))
    runs(here, "job-9", TRAIN, None)
    found = used_before(here.state, TRAIN)
    assert found is not None
    assert (found[0].memory_bytes, found[1]) == (JOBS_COUNTED, JOBS_COUNTED)
