"""An owner wants their machine back: decided by its agent, with nobody asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.ids import CheckpointId, JobId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.guest import GuestPhase, Holding, OwnerState
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.terms import TERM_BEFORE_DEADLINE_S
from gpunion.domain.protocol.effects import (
    CancelShipping,
    KillGuest,
    LimitGuest,
    RemoveGuest,
    SendReport,
    SetTimer,
    TellNotice,
    TerminateGuest,
)
from gpunion.domain.protocol.events import GuestStarted, OwnerReclaimed
from gpunion.domain.protocol.reports import CheckpointFailed, NodeReclaimed, NoticeGiven, RunEnded
from gpunion.domain.protocol.timers import agent_timer
from gpunion.engine.agent.guests import EXIT_SAVED
from tests.builders import (
    TIMING,
    LoneAgent,
    a_save_order,
    a_start,
    an_agent_with_a_guest,
    deeds,
    ends,
    reports,
    timers_of,
)

RUN = RunId("job-e1")


def test_a_notice_sets_the_agent_s_own_timers_and_tells_the_guests_and_their_keepers() -> None:
    agent = an_agent_with_a_guest()
    deadline_s = agent.now_s + 60
    decision = agent.hears(OwnerReclaimed(notice_s=60))
    until_s = agent.now_s + TIMING.lease_s + TIMING.grace_s
    assert decision.changes == (
        Holding(owner_state=OwnerState.RECLAIMING, asked_s=agent.now_s, deadline_s=deadline_s),
    )
    assert decision.effects == (
        SendReport(report=NoticeGiven(deadline_s=deadline_s)),
        SetTimer(timer=agent_timer("deadline"), at_s=deadline_s),
        SetTimer(timer=agent_timer("term"), at_s=deadline_s - TERM_BEFORE_DEADLINE_S),
        SetTimer(timer=agent_timer("own_save"), at_s=agent.now_s + TIMING.own_save_patience_s),
        TellNotice(run_id=RUN, deadline_s=deadline_s),
        LimitGuest(run_id=RUN, lease_until_s=until_s, kill_at_s=deadline_s),
    )


def test_an_empty_machine_is_the_owner_s_at_once() -> None:
    agent = LoneAgent()
    decision = agent.hears(OwnerReclaimed(notice_s=60))
    assert agent.owner_state() is OwnerState.RECLAIMED
    assert reports(decision) == [
        NoticeGiven(deadline_s=agent.now_s + 60),
        NodeReclaimed(freed_after_s=0.0),
    ]
    assert agent.timers.items() == ()
    assert decision.reasons[0].sentence() == "the machine was free 0 s after the owner asked"


def test_the_machine_is_free_as_soon_as_the_last_guest_is_gone() -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=60))
    decision = agent.later(7).exits(code=EXIT_SAVED)
    assert agent.owner_state() is OwnerState.RECLAIMING
    decision = agent.later(3).ships("job-e1-a1")
    assert agent.owner_state() is OwnerState.RECLAIMED
    assert NodeReclaimed(freed_after_s=10.0) in reports(decision)
    assert timers_of(decision) == {"deadline": None, "term": None, "own_save": None}


def test_five_seconds_before_the_deadline_guests_are_asked_to_go() -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=60))
    assert deeds(agent.fires("term")) == [TerminateGuest(run_id=RUN)]
    # A program that dies of being asked has not failed.
    assert ends(agent.exits(code=143)) == [EndReason.DEADLINE]


def test_the_deadline_ends_guests_and_cuts_what_they_ship() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_start("other-e1", gpu=1))
    agent.hears(GuestStarted(run_id=RunId("other-e1"), restored=None, resumed_step=0, restore_s=0))
    agent.ordered(a_save_order(final=True))
    agent.hears(OwnerReclaimed(notice_s=60))
    agent.saves()
    agent.exits(code=None)
    decision = agent.fires("deadline")
    assert deeds(decision) == [
        CancelShipping(run_id=RUN),
        CancelShipping(run_id=RUN),
        RemoveGuest(run_id=RUN),
        KillGuest(run_id=RunId("other-e1"), cause=EndReason.DEADLINE),
    ]
    assert reports(decision) == [
        CheckpointFailed(
            run_id=RUN,
            job_id=JobId("job"),
            epoch=1,
            checkpoint_id=CheckpointId("job-e1-c1"),
            trouble=CheckpointTrouble.DEADLINE,
        )
    ]
    last = agent.exits("other-e1", None, cause=EndReason.DEADLINE)
    assert ends(last) == [EndReason.DEADLINE]
    assert agent.owner_state() is OwnerState.RECLAIMED


def test_output_that_is_not_out_by_the_deadline_stays_behind() -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=60))
    agent.exits(code=0)
    decision = agent.fires("deadline")
    [end] = [report for report in reports(decision) if isinstance(report, RunEnded)]
    assert (end.reason, end.detail) == (
        EndReason.DEADLINE,
        "finished, but its output could not be saved in time",
    )
    assert agent.owner_state() is OwnerState.RECLAIMED


@pytest.mark.parametrize("code", [0, EXIT_SAVED])
def test_what_a_guest_leaves_after_the_deadline_is_not_sent(code: int) -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=10))
    agent.fires("deadline")
    decision = agent.exits(code=code)
    assert deeds(decision) == [RemoveGuest(run_id=RUN)]
    [end] = [report for report in reports(decision) if isinstance(report, RunEnded)]
    assert end.reason is EndReason.DEADLINE
    assert end.detail.endswith("but what it left could not be sent in time")


def test_a_guest_that_died_of_itself_after_the_deadline_is_told_as_it_was() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order())
    agent.saves()
    agent.hears(OwnerReclaimed(notice_s=10))
    agent.later(10)
    decision = agent.exits(code=1)
    assert deeds(decision) == [CancelShipping(run_id=RUN), RemoveGuest(run_id=RUN)]
    assert ends(decision) == [EndReason.FAILED]


def test_a_notice_of_nothing_ends_guests_at_once() -> None:
    agent = an_agent_with_a_guest()
    decision = agent.hears(OwnerReclaimed(notice_s=0))
    assert deeds(decision) == [KillGuest(run_id=RUN, cause=EndReason.DEADLINE)]
    assert reports(decision) == [NoticeGiven(deadline_s=agent.now_s)]
    agent.exits(code=None, cause=EndReason.DEADLINE)
    assert agent.owner_state() is OwnerState.RECLAIMED


def test_a_short_notice_needs_no_polite_word() -> None:
    agent = an_agent_with_a_guest()
    decision = agent.hears(OwnerReclaimed(notice_s=4))
    assert timers_of(decision) == {"deadline": agent.now_s + 4, "own_save": agent.now_s + 1}


def test_a_second_word_shortens_the_notice() -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=60))
    asked_s = agent.now_s
    decision = agent.later(5).hears(OwnerReclaimed(notice_s=10))
    assert timers_of(decision)["deadline"] == agent.now_s + 10
    assert agent.state.holding.asked_s == asked_s


def test_a_second_word_never_lengthens_the_notice() -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=60))
    deadline_s = agent.state.holding.deadline_s
    decision = agent.later(5).hears(OwnerReclaimed(notice_s=600, leaving=True))
    assert reports(decision) == [NoticeGiven(deadline_s=deadline_s or 0.0, leaving=True)]
    assert agent.state.holding.leaving


def test_a_negative_notice_is_none() -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=-5))
    assert agent.guest().phase is GuestPhase.ENDING


def test_a_guest_with_a_last_save_written_is_still_saved_when_killed_by_the_deadline() -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=10))
    agent.ordered(a_save_order(final=True))
    agent.saves()
    agent.ships()
    agent.fires("deadline")
    decision = agent.exits(code=None, cause=EndReason.DEADLINE)
    assert ends(decision) == [EndReason.SAVED]
    assert replace(agent.state.holding, asked_s=0.0) == Holding(owner_state=OwnerState.RECLAIMED)
