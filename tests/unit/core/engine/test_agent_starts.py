"""A guest comes to its machine: what is obeyed, and whom an agent refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpunion.domain.ids import CheckpointId, JobId, RunId
from gpunion.domain.jobs.guest import GuestPhase, JobEpoch
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.decision import AgentDecision
from gpunion.domain.protocol.effects import (
    LimitGuest,
    RemoveGuest,
    SendReport,
    SetTimer,
    StartGuest,
    TellNotice,
)
from gpunion.domain.protocol.events import (
    GuestStarted,
    GuestStartFailed,
    OutputShipped,
    OwnerKilled,
    OwnerPaused,
    OwnerReclaimed,
)
from gpunion.domain.protocol.orders import Order
from gpunion.domain.protocol.reports import RunEnded, RunStarted
from gpunion.domain.protocol.timers import LeaseOver
from gpunion.domain.reasons.reason import Why
from tests.builders import (
    TIMING,
    LoneAgent,
    a_guest,
    a_start,
    a_stop,
    an_agent_with_a_guest,
    deeds,
    facts,
    reports,
    the_end,
    timers_of,
    whys,
)

RUN = RunId("job-e1")
JOB = JobId("job")


def test_a_start_is_obeyed_with_the_lease_s_limit_in_force_from_the_first_moment() -> None:
    agent = LoneAgent(of=facts(gpus=2, terms=Terms(autonomy_s=5)))
    until_s = agent.now_s + TIMING.lease_s + 5 + TIMING.grace_s
    decision = agent.ordered(a_start())
    assert decision.changes == (
        JobEpoch(job_id=JOB, epoch=1),
        a_guest("job-e1", phase=GuestPhase.STARTING, name="train", user="sam", lab="students", came_s=100.0),
    )
    assert decision.effects == (
        StartGuest(order=a_start(), lease_until_s=until_s),
        LimitGuest(run_id=RUN, lease_until_s=until_s, kill_at_s=None),
        SetTimer(timer=LeaseOver(), at_s=until_s - TIMING.grace_s),
    )


def test_a_guest_that_started_is_reported_with_where_it_goes_on() -> None:
    agent = LoneAgent()
    agent.ordered(a_start())
    decision = agent.hears(
        GuestStarted(run_id=RUN, restored=CheckpointId("job-e0-c1"), resumed_step=40, restore_s=2.0)
    )
    assert reports(decision) == [
        RunStarted(
            run_id=RUN,
            job_id=JOB,
            epoch=1,
            restored=CheckpointId("job-e0-c1"),
            resumed_step=40,
            restore_s=2.0,
        )
    ]
    assert (agent.guest().phase, agent.guest().last_step) == (GuestPhase.RUNNING, 40)


def test_a_guest_that_starts_into_a_notice_is_told_of_it() -> None:
    agent = LoneAgent()
    agent.ordered(a_start())
    agent.hears(OwnerReclaimed(notice_s=60))
    decision = agent.hears(GuestStarted(run_id=RUN, restored=None, resumed_step=0, restore_s=0))
    assert TellNotice(run_id=RUN, deadline_s=agent.now_s + 60) in decision.effects


def test_a_start_that_comes_twice_starts_once() -> None:
    agent = an_agent_with_a_guest()
    assert agent.ordered(a_start()).empty
    assert agent.hears(GuestStarted(run_id=RUN, restored=None, resumed_step=0, restore_s=0)).empty


def refused(agent: LoneAgent, order: Order, why: Why) -> AgentDecision:
    decision = agent.ordered(order)
    assert deeds(decision) == []
    [report] = reports(decision)
    assert isinstance(report, RunEnded)
    assert (report.run_id, report.reason, report.why) == (order.run_id, EndReason.REFUSED, why)
    assert whys(decision) == [why]
    return decision


def test_an_epoch_not_newer_than_one_seen_is_refused() -> None:
    agent = an_agent_with_a_guest("job-e5")
    agent.exits("job-e5", 0)
    agent.hears(OutputShipped(run_id=RunId("job-e5"), output=None))
    decision = refused(agent, a_start("job-e4"), Why.OLD_EPOCH)
    assert decision.reasons[0].sentence() == "run 4 of it is older than run 5, which is known there"
    refused(agent, a_start("job-e5"), Why.OLD_EPOCH)
    assert deeds(agent.ordered(a_start("job-e6"))) != []


def test_a_stop_teaches_an_agent_the_epoch_as_well() -> None:
    agent = LoneAgent()
    agent.ordered(a_stop("job-e3"))
    refused(agent, a_start("job-e3"), Why.OLD_EPOCH)


@pytest.mark.parametrize("word", [OwnerPaused(), OwnerReclaimed(notice_s=60), OwnerKilled()])
def test_nobody_new_comes_against_the_owner_s_word(word: OwnerPaused) -> None:
    agent = LoneAgent()
    agent.hears(word)
    decision = refused(agent, a_start(), Why.OWNER_SAID_NO)
    assert "the owner said" in decision.reasons[0].sentence()


def test_nobody_new_comes_during_a_notice_with_others_still_here() -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=60))
    refused(agent, a_start("other-e1", gpu=1), Why.OWNER_SAID_NO)


def test_nobody_new_comes_without_a_lease_or_after_its_end() -> None:
    refused(LoneAgent(lease=False), a_start(), Why.NO_LEASE)
    agent = LoneAgent()
    refused(agent.later(TIMING.lease_s), a_start(), Why.NO_LEASE)


def test_a_lab_the_owner_does_not_admit_is_refused_here_as_well() -> None:
    agent = LoneAgent(of=facts(terms=Terms(deny_labs=("students",))))
    decision = refused(agent, a_start(), Why.LAB_NOT_ADMITTED)
    assert "lab 'students'" in decision.reasons[0].sentence()


def test_a_machine_that_cannot_shut_guests_in_takes_none_unless_its_owner_says_so() -> None:
    refused(LoneAgent(of=facts(sandboxed=False)), a_start(), Why.UNSANDBOXED)
    allowed = LoneAgent(of=facts(sandboxed=False, terms=Terms(allow_unsandboxed=True)))
    assert deeds(allowed.ordered(a_start())) != []


def test_no_more_guests_than_the_owner_allows_are_taken() -> None:
    agent = an_agent_with_a_guest(of=facts(gpus=2, terms=Terms(max_guests=1)))
    refused(agent, a_start("other-e1", gpu=1), Why.GUESTS_FULL)


def test_a_granted_gpu_that_is_still_held_is_refused() -> None:
    agent = an_agent_with_a_guest()
    refused(agent, a_start("other-e1", gpu=0), Why.GPU_BUSY)
    assert deeds(agent.ordered(a_start("third-e1", gpu=1))) != []


def test_two_incarnations_of_a_job_are_not_on_one_machine() -> None:
    agent = an_agent_with_a_guest("job-e1")
    refused(agent, a_start("job-e2", gpu=1), Why.GPU_BUSY)


@pytest.mark.parametrize(
    ("grant", "said"),
    [
        ({"gpu_indices": (7,)}, "no GPU 7"),
        ({"gpu_indices": (0, 0)}, "twice"),
        ({"cpus": 1e9}, "it has 16 CPUs"),
        ({"cpus": -1.0}, "it has 16 CPUs"),
        ({"memory_bytes": 2**60}, "it has 64 GiB of memory"),
        ({"memory_bytes": -1}, "it has 64 GiB of memory"),
    ],
)
def test_what_the_machine_does_not_have_is_granted_to_nobody(grant: dict[str, Any], said: str) -> None:
    start = a_start()
    decision = refused(LoneAgent(), replace(start, grant=replace(start.grant, **grant)), Why.BEYOND_MACHINE)
    assert said in decision.reasons[0].sentence()


def test_nobody_is_granted_what_another_guest_has() -> None:
    agent = an_agent_with_a_guest(of=facts(gpus=2, cpus=4))
    start = a_start("other-e1", gpu=1)
    mine = agent.guest().grant.cpus
    refused(agent, replace(start, grant=replace(start.grant, cpus=4.5 - mine)), Why.BEYOND_MACHINE)
    assert deeds(agent.ordered(replace(start, run_id=RunId("x-e2"), epoch=2))) != []


def test_a_start_that_fails_is_reported_and_cleared_away() -> None:
    agent = LoneAgent()
    agent.ordered(a_start())
    decision = agent.hears(GuestStartFailed(run_id=RUN, detail="no such image"))
    assert decision.forgotten == (RUN,)
    assert decision.effects == (
        SendReport(report=the_end(EndReason.START_FAILED, detail="no such image")),
        RemoveGuest(run_id=RUN),
    )
    assert agent.hears(GuestStartFailed(run_id=RUN, detail="again")).empty


def test_a_run_whose_number_is_used_was_refused_and_has_not_failed() -> None:
    agent = LoneAgent()
    agent.ordered(a_start())
    decision = agent.hears(GuestStartFailed(run_id=RUN, detail="epoch 3 has begun", why=Why.EPOCH_USED))
    assert [r.reason for r in reports(decision) if isinstance(r, RunEnded)] == [EndReason.REFUSED]


def test_a_start_that_fails_after_a_stop_counts_as_stopped() -> None:
    agent = LoneAgent()
    agent.ordered(a_start())
    agent.ordered(a_stop())
    decision = agent.hears(GuestStartFailed(run_id=RUN, detail="killed"))
    assert [r.reason for r in reports(decision) if isinstance(r, RunEnded)] == [EndReason.STOPPED]
    assert timers_of(decision) == {"kill:job-e1": None}
