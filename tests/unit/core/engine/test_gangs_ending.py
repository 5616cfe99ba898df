"""A gang ends as one: when the last has finished, when any fails, when any is stopped."""

from __future__ import annotations

import pytest

from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.events import TimerFired
from gpunion.domain.protocol.orders import StopRun
from gpunion.domain.protocol.timers import ReplanDue
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.runs.retry_limits import AT_MOST, Trouble
from tests.builders import Headquarters
from tests.builders.gangs import MEMBERS, RUNS, a_gang_spec, a_running_gang, of_kind, phases, told

VANISHED_MOST = AT_MOST[Trouble.VANISHED]


def test_a_gang_succeeds_when_the_last_member_has_finished() -> None:
    headquarters = a_running_gang()
    headquarters.ended("job-e1", EndReason.FINISHED, step=100, exit_code=0)
    assert phases(headquarters) == ["finishing", "running"]
    headquarters.ended("job-r1-e1", EndReason.FINISHED, step=100, exit_code=0)
    assert phases(headquarters) == ["succeeded", "succeeded"]
    assert headquarters.job("job").exit_code == 0


def test_a_member_whose_output_could_not_be_kept_makes_all_run_again_and_one_that_lost_a_link_is_told() -> (
    None
):
    headquarters = a_running_gang("gamma")
    headquarters.ended("job-e1", EndReason.FINISHED, exit_code=0, detail="left out of its output: l")
    assert told(headquarters, "job", Why.OUTPUT_LEFT_OUT) == ["left out of its output: l"]
    headquarters.ended("job-r1-e1", EndReason.OUTPUT_LOST, exit_code=0, detail="the vault is away")
    assert "but the vault is away; it is run again" in told(headquarters, "job-r1", Why.OUTPUT_NOT_KEPT)[0]
    assert phases(headquarters) == ["starting", "starting"]
    headquarters.ended("job-e2", EndReason.OUTPUT_LOST, exit_code=0, detail="the vault is away")  # another's
    headquarters.ended("job-r1-e2", EndReason.STOPPED)
    assert phases(headquarters) == ["failed", "failed"]
    assert "finished 2 times" in told(headquarters, "job-r1", Why.FAILED)[0]


def test_a_member_that_fails_fails_the_gang() -> None:
    headquarters = a_running_gang()
    decision = headquarters.ended("job-r1-e1", EndReason.FAILED, exit_code=3)
    assert of_kind(decision, StopRun).keys() == {"job-e1"}
    where = "exit code 3; see its log: gpunion logs job-r1"
    assert f"member 1 failed ({where})" in told(headquarters, "job", Why.GANG_FAILS)[0]
    headquarters.ended("job-e1", EndReason.STOPPED)
    assert phases(headquarters) == ["failed", "failed"]
    assert told(headquarters, "job-r1", Why.FAILED) == [f"failed: {where}"]
    assert told(headquarters, "job", Why.FAILED) == [f"failed: member 1 of its gang failed: {where}"]


def test_a_member_that_cannot_be_started_anywhere_fails_the_gang() -> None:
    headquarters = Headquarters()
    for node in ("alpha", "beta"):
        headquarters.joins(node)
    headquarters.submits("job", a_gang_spec())
    for epoch in (1, 2, 3):
        headquarters.ended(f"job-e{epoch}", EndReason.START_FAILED, detail="no such file")
        headquarters.ended(f"job-r1-e{epoch}", EndReason.STOPPED)
        if epoch < 3:
            headquarters.later(31).hears(TimerFired(timer=ReplanDue()))
    assert phases(headquarters) == ["failed", "failed"]
    assert "could not be started in 3 tries: no such file" in told(headquarters, "job", Why.FAILED)[0]


def test_a_member_that_vanishes_wherever_it_is_put_fails_the_gang() -> None:
    headquarters = a_running_gang()
    for epoch in range(1, VANISHED_MOST + 1):
        headquarters.ended(f"job-r1-e{epoch}", EndReason.GUEST_LOST)
        headquarters.ended(f"job-e{epoch}", EndReason.STOPPED)
        if epoch < VANISHED_MOST:
            headquarters.later(headquarters.engine.timing.avoid_s + 1).hears(TimerFired(timer=ReplanDue()))
            for member in MEMBERS:
                headquarters.started(f"{member}-e{epoch + 1}")
    assert phases(headquarters) == ["failed", "failed"]
    assert "was lost without a word 10 times" in told(headquarters, "job", Why.FAILED)[0]


@pytest.mark.parametrize("asked", MEMBERS)
def test_stopping_any_member_stops_all(asked: str) -> None:
    headquarters = a_running_gang()
    assert of_kind(headquarters.stops(asked), StopRun).keys() == set(RUNS)
    headquarters.ended("job-e1", EndReason.STOPPED)
    headquarters.ended("job-r1-e1", EndReason.FINISHED, exit_code=0)
    assert phases(headquarters) == ["cancelled", "cancelled"]


def test_a_late_word_that_a_lost_member_had_finished_changes_nothing() -> None:
    headquarters = a_running_gang("gamma")
    headquarters.silent("beta")
    headquarters.fires("give_up:job-r1-e1")
    headquarters.ended("job-r1-e1", EndReason.FINISHED, exit_code=0)
    assert headquarters.job("job-r1").phase is JobPhase.MIGRATING
