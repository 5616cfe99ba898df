"""Who may do what with what is saved: each right x each kind of node, in one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpunion.domain.ids import CheckpointId, JobId, NodeId, RunId
from gpunion.domain.jobs.checkpoint import Checkpoint, CheckpointPhase
from gpunion.domain.jobs.job import JobPhase, StateCopy
from gpunion.domain.jobs.run import Run, RunPhase
from gpunion.engine.coordinator.state import CampusState
from gpunion.engine.coordinator.vault_rights import (
    NOT_YOUR_JOB,
    NOT_YOUR_RUN,
    OLD_EPOCH,
    Refusal,
    VaultRights,
    rights_of,
    why_not_log,
    why_not_share_blocks,
)
from tests.builders.values import a_job, a_run

JOB = JobId("job")
FORMER, LIVING, OTHER_JOB, STRANGER, AGAIN, AWAITED = map(
    NodeId, ("former", "living", "busy", "stranger", "former-2", "next")
)


def a_sealed(id: str, step: int) -> Checkpoint:
    run = RunId(id.rpartition("-")[0])
    return Checkpoint(
        id=CheckpointId(id),
        job_id=JOB,
        run_id=run,
        epoch=int(run.rpartition("-e")[2]),
        phase=CheckpointPhase.DURABLE,
        requested_s=0.0,
        step=step,
    )


def a_campus(*runs: Run) -> CampusState:
    """`former` ran the job first and saved step 50, `living` runs it now, `next` awaits its state."""
    present = runs or (a_run("job-e2", node_id=LIVING, started_s=2.0),)
    copy = StateCopy(
        node_id=AWAITED, checkpoint_id=CheckpointId("job-e1-c1"), asked_s=0.0, asked_bytes=1, there=False
    )
    return CampusState.from_records(
        [
            a_job(epoch=max(run.epoch for run in present), phase=JobPhase.RUNNING, copies=(copy,)),
            a_run("job-e1", node_id=FORMER, phase=RunPhase.ENDED, started_s=1.0),
            *present,
            a_job("other", epoch=1),
            a_run("other-e1", node_id=OTHER_JOB, started_s=1.0),
            a_sealed("job-e1-c1", 50),
        ]
    )


ASKS: dict[str, Callable[[VaultRights], Refusal | None]] = {
    "begins the present epoch": lambda rights: rights.why_not_save(2),
    "begins the epoch before": lambda rights: rights.why_not_save(1),
    "begins a later epoch": lambda rights: rights.why_not_save(10**9),
    "seals into the present epoch": lambda rights: rights.why_not_seal(2, "job-e2-c1"),
    "seals the present output": lambda rights: rights.why_not_seal(2, "job-e2-output"),
    "seals the present output beforehand": lambda rights: rights.why_not_seal(1, "job-e2-output"),
    "seals under another's name": lambda rights: rights.why_not_seal(2, "job-e1-c2"),
    "seals late": lambda rights: rights.why_not_seal(1, "job-e1-c2"),
    "begins a copy of the first run": lambda rights: rights.why_not_bring(1),
    "begins a copy of the present run": lambda rights: rights.why_not_bring(2),
    "begins a copy of a run to come": lambda rights: rights.why_not_bring(3),
    "copies what is known": lambda rights: rights.why_not_copy(1, "job-e1-c1", 50),
    "copies what is known with another step": lambda rights: rights.why_not_copy(1, "job-e1-c1", 999),
    "copies what nobody knows": lambda rights: rights.why_not_copy(1, "job-e1-c7", 50),
    "copies the present run's": lambda rights: rights.why_not_copy(2, "job-e2-c1", 60),
    "lists": lambda rights: rights.why_not_read(),
    "reads the newest": lambda rights: rights.why_not_read_newest(),
    "holds the first run's": lambda rights: rights.why_not_hold("job-e1-c1"),
    "holds the present run's": lambda rights: rights.why_not_hold("job-e2-c1"),
    "has older ones forgotten": lambda rights: rights.why_not_save_any(),
    "touches the job's own blocks": lambda rights: rights.why_not_touch_blocks(),
}
# What a node that was never given this job is told throughout, but for what awaits its state.
MAY: dict[str, tuple[str | None, str | None, str | None]] = {
    #                                       living         former        awaits
    "begins the present epoch": (None, NOT_YOUR_RUN, NOT_YOUR_JOB),
    "begins the epoch before": (NOT_YOUR_RUN, OLD_EPOCH, NOT_YOUR_JOB),
    "begins a later epoch": (NOT_YOUR_RUN, NOT_YOUR_RUN, NOT_YOUR_JOB),
    "seals into the present epoch": (None, NOT_YOUR_RUN, NOT_YOUR_JOB),
    "seals the present output": (None, NOT_YOUR_RUN, NOT_YOUR_JOB),
    "seals the present output beforehand": (NOT_YOUR_RUN, OLD_EPOCH, NOT_YOUR_JOB),
    "seals under another's name": (NOT_YOUR_RUN, NOT_YOUR_RUN, NOT_YOUR_JOB),
    "seals late": (NOT_YOUR_RUN, OLD_EPOCH, NOT_YOUR_JOB),
    "begins a copy of the first run": (None, None, NOT_YOUR_JOB),
    "begins a copy of the present run": (None, NOT_YOUR_RUN, NOT_YOUR_JOB),
    "begins a copy of a run to come": (NOT_YOUR_RUN, NOT_YOUR_RUN, NOT_YOUR_JOB),
    "copies what is known": (None, None, NOT_YOUR_JOB),
    "copies what is known with another step": (NOT_YOUR_RUN, NOT_YOUR_RUN, NOT_YOUR_JOB),
    "copies what nobody knows": (NOT_YOUR_RUN, NOT_YOUR_RUN, NOT_YOUR_JOB),
    "copies the present run's": (None, NOT_YOUR_RUN, NOT_YOUR_JOB),
    "lists": (None, None, None),
    "reads the newest": (None, OLD_EPOCH, None),
    "holds the first run's": (None, None, None),
    "holds the present run's": (None, OLD_EPOCH, None),
    "has older ones forgotten": (None, OLD_EPOCH, NOT_YOUR_JOB),
    "touches the job's own blocks": (None, None, NOT_YOUR_JOB),
}


@pytest.mark.parametrize("ask", ASKS)
def test_each_right_is_given_to_whose_run_it_is(ask: str) -> None:
    state = a_campus()

    def answer(node: NodeId) -> str | None:
        refusal = ASKS[ask](rights_of(state, node, JOB))
        if refusal is not None:
            assert refusal.detail
            assert refusal.next_step
        return None if refusal is None else refusal.code

    assert (answer(LIVING), answer(FORMER), answer(AWAITED)) == MAY[ask]
    assert {answer(OTHER_JOB), answer(STRANGER), answer(AGAIN)} == {NOT_YOUR_JOB}


def test_a_former_node_is_shown_its_own_runs_saves_and_the_living_one_all() -> None:
    state = a_campus()
    assert [rights_of(state, FORMER, JOB).shows(epoch) for epoch in (1, 2)] == [True, False]
    assert [rights_of(state, LIVING, JOB).shows(epoch) for epoch in (1, 2)] == [True, True]


@pytest.mark.parametrize("phase", [JobPhase.MIGRATING, JobPhase.FAILED, JobPhase.SUCCEEDED])
def test_a_last_save_and_an_output_are_taken_after_the_run_has_ended(phase: JobPhase) -> None:
    state = a_campus(a_run("job-e2", node_id=LIVING, phase=RunPhase.ENDED, started_s=2.0, ended_s=3.0))
    state.put(replace(state.jobs[JOB], phase=phase))
    rights = rights_of(state, LIVING, JOB)
    assert rights.why_not_save(2) is None
    assert rights.why_not_seal(2, "job-e2-c9") is None
    assert rights.why_not_seal(2, "job-e2-output") is None


def test_a_last_save_is_taken_while_the_next_run_is_only_ordered_and_not_once_it_has_started() -> None:
    ended = a_run("job-e2", node_id=LIVING, phase=RunPhase.ENDED, started_s=2.0)
    ordered = a_run("job-e3", node_id=NodeId("third"), phase=RunPhase.ORDERED)
    assert rights_of(a_campus(ended, ordered), LIVING, JOB).why_not_seal(2, "job-e2-c9") is None
    running = replace(ordered, phase=RunPhase.RUNNING, started_s=9.0)
    refusal = rights_of(a_campus(ended, running), LIVING, JOB).why_not_seal(2, "job-e2-c9")
    assert refusal is not None
    assert refusal.code == OLD_EPOCH


def test_a_coordinator_put_back_from_a_backup_takes_no_run_it_has_not_given() -> None:
    """Its database knows two epochs of the job; the node was given the seventh by the one before."""
    rights = rights_of(a_campus(), LIVING, JOB)
    refusal = rights.why_not_seal(7, "job-e7-output")
    assert refusal is not None
    assert refusal.code == NOT_YOUR_RUN
    assert "has had 2 runs" in refusal.detail


def test_blocks_are_put_by_machines_that_were_given_a_job_and_read_by_those_that_await_one_as_well() -> None:
    state = a_campus()
    puts = {node: why_not_share_blocks(state, node) is None for node in (LIVING, FORMER, AWAITED, STRANGER)}
    assert puts == {LIVING: True, FORMER: True, AWAITED: False, STRANGER: False}
    assert why_not_share_blocks(state, AWAITED, reading=True) is None
    assert why_not_share_blocks(state, STRANGER, reading=True) is not None


def test_what_a_program_printed_is_taken_from_the_machine_that_ran_it_whatever_began_since() -> None:
    state = a_campus()
    first, present = state.runs[RunId("job-e1")], state.runs[RunId("job-e2")]
    assert why_not_log(state, LIVING, present) is None
    assert why_not_log(state, FORMER, first) is None
    for node, run in ((LIVING, first), (FORMER, present), (STRANGER, first), (STRANGER, present)):
        refusal = why_not_log(state, node, run)
        assert refusal is not None
        assert refusal.code == NOT_YOUR_RUN
