"""The invariants are noticed when they are broken. The states here are wrong on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpunion.domain.ids import CheckpointId, JobId, MigrationId, NodeId, RunId
from gpunion.domain.jobs.checkpoint import Checkpoint, CheckpointPhase
from gpunion.domain.jobs.gang import Seat
from gpunion.domain.jobs.job import DurablePoint, Job, JobPhase
from gpunion.domain.jobs.run import RunPhase
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.decision import Decision, Record
from gpunion.domain.protocol.effects import SendOrder
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.reasons.reason import Why, because
from gpunion.domain.resources import GIB, Grant
from gpunion.engine.coordinator.audit import BrokenInvariant, Violation, check
from gpunion.engine.coordinator.state import CampusState
from tests.builders import a_job, a_node, a_run, a_spec, a_start, facts

ALPHA = NodeId("alpha")
DURABLE = DurablePoint(checkpoint_id=CheckpointId("job-e1-c1"), step=5, progress=0.1, at_s=0.0)


def a_checkpoint(**changes: object) -> Checkpoint:
    checkpoint = {
        "id": CheckpointId("job-e1-c1"),
        "job_id": JobId("job"),
        "run_id": RunId("job-e1"),
        "epoch": 1,
        "phase": CheckpointPhase.REQUESTED,
        "requested_s": 0.0,
    }
    return Checkpoint(**{**checkpoint, **changes})  # type: ignore[arg-type]


def found(*records: Record, decision: Decision | None = None) -> list[tuple[int, str]]:
    state = CampusState.from_records(records)
    violations = check(state, decision or Decision(changes=records))
    return [(violation.invariant, violation.subject) for violation in violations]


def test_an_honest_state_has_nothing_to_hide() -> None:
    sealed = a_checkpoint(phase=CheckpointPhase.DURABLE, step=5)
    job = a_job(phase=JobPhase.RUNNING, epoch=1, durable=DURABLE)
    assert found(a_node(), job, a_run(), sealed) == []


@pytest.mark.parametrize("phase", [phase for phase in NodePhase if phase is not NodePhase.SHARING])
def test_a_start_on_a_node_that_is_not_lent_is_noticed(phase: NodePhase) -> None:
    decision = Decision(effects=(SendOrder(node_id=ALPHA, order=a_start()),))
    assert found(a_node(phase=phase), a_job(), decision=decision) == [(2, "alpha")]


def test_a_start_of_a_lab_the_owner_does_not_admit_is_noticed() -> None:
    decision = Decision(effects=(SendOrder(node_id=ALPHA, order=a_start()),))
    node = a_node(of=facts(terms=Terms(deny_labs=("students",))))
    assert found(node, a_job(), decision=decision) == [(2, "alpha")]


def test_two_living_incarnations_are_noticed() -> None:
    job = a_job(phase=JobPhase.RUNNING, epoch=2)
    elsewhere = a_run("job-e2", node_id=NodeId("beta"))
    assert (3, "job") in found(a_node(), a_node("beta"), job, a_run("job-e1"), elsewhere)


def test_a_living_run_of_an_old_epoch_is_noticed() -> None:
    job = a_job(phase=JobPhase.RUNNING, epoch=2)
    assert found(a_node(), job, a_run("job-e1")) == [(3, "job")]


@pytest.mark.parametrize("phase", [CheckpointPhase.REQUESTED, CheckpointPhase.FAILED])
def test_a_durable_point_that_is_not_durable_is_noticed(phase: CheckpointPhase) -> None:
    job = a_job(phase=JobPhase.RUNNING, epoch=1, durable=DURABLE)
    assert found(a_node(), job, a_run(), a_checkpoint(phase=phase)) == [(4, "job")]
    assert found(a_node(), job, a_run()) == [(4, "job")]


def test_a_durable_step_before_where_its_run_began_is_noticed() -> None:
    job = a_job(phase=JobPhase.RUNNING, epoch=1, durable=DURABLE)
    sealed = a_checkpoint(phase=CheckpointPhase.DURABLE, step=5)
    assert found(a_node(), job, a_run(resumed_step=9), sealed) == [(4, "job")]


def test_a_gpu_promised_twice_is_noticed() -> None:
    jobs = [a_job("one", phase=JobPhase.RUNNING, epoch=1), a_job("two", phase=JobPhase.RUNNING, epoch=1)]
    assert found(a_node(), *jobs, a_run("one-e1"), a_run("two-e1")) == [(5, "alpha")]


def test_memory_promised_twice_is_noticed() -> None:
    grant = Grant(gpu_indices=(0,), cpus=1, memory_bytes=65 * GIB)
    job = a_job(phase=JobPhase.RUNNING, epoch=1)
    assert found(a_node(), job, a_run(grant=grant)) == [(5, "alpha")]


def test_flushes_over_the_cap_are_noticed_and_periodic_saves_do_not_count() -> None:
    job = a_job(phase=JobPhase.RUNNING, epoch=1)
    run = a_run(phase=RunPhase.LEAVING)
    assert found(a_node(), job, run, a_checkpoint(rate_bps=1e9)) == []
    assert found(a_node(), job, run, a_checkpoint(rate_bps=1e9, final=True)) == [(6, "alpha")]


@pytest.mark.parametrize("phase", [JobPhase.MIGRATING, JobPhase.FAILED, JobPhase.CANCELLED])
def test_an_interruption_without_a_reason_is_noticed(phase: JobPhase) -> None:
    job = a_job(phase=phase)
    assert found(job) == [(8, "job")]
    told = Decision(changes=(job,), reasons=(because("job", Why.CANCELLED),))
    assert found(job, decision=told) == []


def test_an_interruption_that_was_planned_was_explained_when_it_began() -> None:
    assert found(a_job(phase=JobPhase.MIGRATING, migration=MigrationId("job-m1"))) == []


def test_a_broken_invariant_says_which_and_whose() -> None:
    broken = BrokenInvariant([Violation(invariant=5, subject="alpha", what="promised twice")])
    assert str(broken) == "[5] alpha: promised twice"
    assert broken.violations[0].invariant == 5


def a_member(rank: int = 0, **changes: Any) -> Job:
    spec = replace(a_spec(), seat=Seat(size=2, rank=rank))
    return a_job("job" if rank == 0 else f"job-r{rank}", spec=spec, **changes)


def test_a_gang_that_runs_in_part_is_noticed_unless_that_part_is_being_ended() -> None:
    waiting = a_member(1, phase=JobPhase.PENDING)
    running = a_member(phase=JobPhase.RUNNING, epoch=1)
    assert found(a_node(), running, waiting, a_run()) == [(11, "job")]
    assert found(a_node(), running, waiting, a_run(phase=RunPhase.STOPPING)) == []


def test_members_with_durable_states_of_different_steps_are_noticed() -> None:
    checkpoint = a_checkpoint(phase=CheckpointPhase.DURABLE, step=5)
    first = a_member(phase=JobPhase.RUNNING, durable=DURABLE)
    assert found(first, a_member(1, phase=JobPhase.RUNNING), checkpoint) == [(12, "job")]


def test_members_that_are_started_apart_or_from_different_steps_are_noticed() -> None:
    members = (a_member(phase=JobPhase.STARTING), a_member(1, phase=JobPhase.STARTING))
    first = a_start(seat=Seat(size=2))
    second = a_start("job-r1-e1", seat=Seat(size=2, rank=1))
    node = a_node(of=facts(gpus=2))

    def decision(*starts: StartRun) -> Decision:
        return Decision(effects=tuple(SendOrder(node_id=ALPHA, order=start) for start in starts))

    assert found(node, *members, decision=decision(first, second)) == []
    assert found(node, *members, decision=decision(first)) == [(11, "job")]
    other = replace(second, restore=CheckpointId("job-r1-e1-c1"), restore_step=7)
    assert found(node, *members, decision=decision(first, other)) == [(12, "job")]
