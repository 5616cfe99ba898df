"""Small questions the vocabulary answers by itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.ids import JobId, RunId, checkpoint_id, migration_id, own_checkpoint_id, run_id
from gpunion.domain.jobs.guest import GuestPhase
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.migration import Cause, Migration, MigrationPhase
from gpunion.domain.jobs.run import RunPhase
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.commit import AgentCommit
from gpunion.domain.protocol.decision import AgentDecision, Decision
from gpunion.domain.protocol.effects import CancelTimer
from gpunion.domain.protocol.events import LeaseRenewed, OwnerPaused
from gpunion.domain.protocol.timers import LeaseOver
from gpunion.domain.reasons.reason import Why, because
from gpunion.domain.resources import GIB, Capacity
from gpunion.domain.ties import tie_break
from gpunion.domain.timing import Timing
from tests.builders import a_guest, a_node, a_run, a_view, facts, some_gpus


def test_ids_are_made_of_what_they_name() -> None:
    run = run_id(JobId("job"), 3)
    assert run == "job-e3"
    assert checkpoint_id(run, 2) == "job-e3-c2"
    assert own_checkpoint_id(run, 2) == "job-e3-a2"
    assert migration_id(JobId("job"), 4) == "job-m4"


def test_a_gang_runs_at_the_pace_of_its_slowest_gpu() -> None:
    gpus = some_gpus(1, speed=2.0) + some_gpus(1, speed=0.5, first=1)
    assert Capacity(gpus=gpus, cpus=1, memory_bytes=1, uplink_bps=1).speed == 0.5
    assert Capacity(gpus=(), cpus=1, memory_bytes=1, uplink_bps=1).speed == 1.0


@pytest.mark.parametrize(
    ("terms", "admitted"),
    [
        (Terms(), True),
        (Terms(allow_labs=("students",)), True),
        (Terms(allow_labs=("others",)), False),
        (Terms(deny_labs=("students",)), False),
        (Terms(allow_labs=("students",), deny_labs=("students",)), False),
    ],
)
def test_an_owner_says_which_labs_come_in(terms: Terms, admitted: bool) -> None:
    assert terms.admits_lab("students") is admitted


def test_the_fence_outlasts_every_promise_of_an_agent_even_with_a_slow_clock() -> None:
    timing = Timing(lease_s=10, grace_s=3, drift=0.1, hiccup_s=0.5)
    assert timing.fence_s() == pytest.approx(14.8)
    assert timing.fence_s(60) == pytest.approx(80.8)


def test_ties_break_the_same_way_every_time_and_differ_by_what_is_decided() -> None:
    assert tie_break("placement", "job", 1) == tie_break("placement", "job", 1)
    assert tie_break("ab", "c") != tie_break("a", "bc")


def test_an_owner_s_cap_on_memory_counts_where_it_is_less_than_the_machine_has() -> None:
    assert a_view(a_node(of=facts(memory_gib=8))).lent_memory_bytes == 8 * GIB
    capped = a_node(of=facts(memory_gib=8, terms=Terms(memory_bytes=GIB)))
    assert a_view(capped).lent_memory_bytes == GIB
    generous = a_node(of=facts(memory_gib=8, terms=Terms(memory_bytes=100 * GIB)))
    assert a_view(generous).lent_memory_bytes == 8 * GIB


def test_downtime_is_known_once_the_job_runs_again() -> None:
    migration = Migration(
        id=migration_id(JobId("job"), 1),
        job_id=JobId("job"),
        source_run=RunId("job-e1"),
        source_node=a_node().id,
        cause=Cause.OWNER_KILL,
        phase=MigrationPhase.DONE,
        started_s=0.0,
    )
    assert migration.downtime_s is None
    assert replace(migration, stopped_s=5.0).downtime_s is None
    assert replace(migration, stopped_s=5.0, resumed_s=8.0).downtime_s == 3.0
    assert replace(migration, stopped_s=9.0, resumed_s=8.0).downtime_s == 0.0


def test_phases_know_what_they_mean() -> None:
    assert {phase for phase in JobPhase if phase.over} == {
        JobPhase.SUCCEEDED,
        JobPhase.FAILED,
        JobPhase.CANCELLED,
    }
    waiting = {JobPhase.PENDING, JobPhase.MIGRATING, JobPhase.BETWEEN}
    assert {phase for phase in JobPhase if phase.waiting} == waiting
    assert [phase for phase in RunPhase if not a_run(phase=phase).living] == [RunPhase.ENDED]
    assert {phase for phase in GuestPhase if a_guest(phase=phase).living} == {
        GuestPhase.STARTING,
        GuestPhase.RUNNING,
        GuestPhase.ENDING,
    }


def test_a_decision_that_says_nothing_is_empty() -> None:
    assert Decision().empty
    assert not Decision(reasons=(because("job", Why.UNKNOWN_JOB),)).empty
    assert AgentDecision().empty
    assert not AgentDecision(forgotten=(RunId("job-e1"),)).empty


def test_only_what_a_restart_would_miss_is_worth_a_write() -> None:
    something = AgentDecision(effects=(CancelTimer(timer=LeaseOver()),))
    assert AgentCommit(at_s=0, event=OwnerPaused(), decision=AgentDecision()).volatile
    assert AgentCommit(at_s=0, event=LeaseRenewed(until_s=1), decision=something).volatile
    assert not AgentCommit(at_s=0, event=OwnerPaused(), decision=something).volatile
