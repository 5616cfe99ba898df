"""Pause, resume, kill and leave: the owner's word on their own machine."""

from __future__ import annotations

import pytest

from gpunion.domain.ids import RunId
from gpunion.domain.jobs.guest import Holding, OwnerState
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.effects import (
    CancelShipping,
    CancelTimer,
    KillGuest,
    LimitGuest,
    RemoveGuest,
    SendReport,
    TellNotice,
)
from gpunion.domain.protocol.events import (
    AgentEvent,
    GuestStarted,
    OwnerKilled,
    OwnerPaused,
    OwnerReclaimed,
    OwnerResumed,
)
from gpunion.domain.protocol.reports import NodeLeft, NodePaused, NodeReclaimed, NodeResumed
from gpunion.domain.protocol.timers import LeaseOver, agent_timer
from tests.builders import (
    TIMING,
    LoneAgent,
    a_save_order,
    a_start,
    an_agent_with_a_guest,
    deeds,
    ends,
    reports,
)

RUN = RunId("job-e1")


def test_a_pause_lets_guests_stay() -> None:
    agent = an_agent_with_a_guest()
    decision = agent.hears(OwnerPaused())
    assert (deeds(decision), reports(decision)) == ([], [NodePaused()])
    assert agent.owner_state() is OwnerState.PAUSED
    assert agent.hears(OwnerPaused()).empty


def test_a_pause_during_a_notice_is_not_heard() -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=60))
    assert agent.hears(OwnerPaused()).empty


def test_resume_after_a_pause_lends_again() -> None:
    agent = LoneAgent()
    agent.hears(OwnerPaused())
    assert reports(agent.hears(OwnerResumed())) == [NodeResumed()]
    assert agent.owner_state() is OwnerState.SHARING
    assert agent.hears(OwnerResumed()).empty


def test_resume_during_a_notice_takes_everything_back() -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=60, leaving=True))
    decision = agent.hears(OwnerResumed())
    until_s = agent.now_s + TIMING.lease_s + TIMING.grace_s
    assert decision.effects == (
        CancelTimer(timer=agent_timer("deadline")),
        CancelTimer(timer=agent_timer("term")),
        CancelTimer(timer=agent_timer("own_save")),
        TellNotice(run_id=RUN, deadline_s=None),
        LimitGuest(run_id=RUN, lease_until_s=until_s, kill_at_s=None),
        SendReport(report=NodeResumed()),
    )
    assert agent.state.holding == Holding(owner_state=OwnerState.SHARING, asked_s=agent.now_s)


def test_a_kill_ends_everything_now_and_is_said_at_once() -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=60))
    decision = agent.hears(OwnerKilled())
    assert deeds(decision) == [KillGuest(run_id=RUN, cause=EndReason.KILLED_BY_OWNER)]
    assert reports(decision) == [NodeReclaimed(freed_after_s=0.0, killed=True)]
    assert agent.state.holding == Holding(owner_state=OwnerState.RECLAIMED, asked_s=agent.now_s, killed=True)
    assert agent.timers.items() == ((LeaseOver(), agent.now_s + TIMING.lease_s),)
    ended = agent.exits(code=None, cause=EndReason.KILLED_BY_OWNER)
    assert ends(ended) == [EndReason.KILLED_BY_OWNER]


def test_a_kill_cuts_what_is_being_shipped() -> None:
    agent = an_agent_with_a_guest()
    agent.ordered(a_save_order())
    agent.saves()
    agent.exits(code=None)
    decision = agent.hears(OwnerKilled())
    assert deeds(decision) == [
        CancelShipping(run_id=RUN),
        CancelShipping(run_id=RUN),
        RemoveGuest(run_id=RUN),
    ]


def test_a_kill_during_a_start_ends_the_start() -> None:
    agent = LoneAgent()
    agent.ordered(a_start())
    assert deeds(agent.hears(OwnerKilled())) == [KillGuest(run_id=RUN, cause=EndReason.KILLED_BY_OWNER)]
    assert agent.hears(GuestStarted(run_id=RUN, restored=None, resumed_step=0, restore_s=0)).empty


def test_a_kill_of_an_empty_machine_takes_it() -> None:
    agent = LoneAgent()
    assert reports(agent.hears(OwnerKilled())) == [NodeReclaimed(freed_after_s=0.0, killed=True)]


def test_leave_with_guests_is_a_notice_and_then_a_goodbye() -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=30, leaving=True))
    decision = agent.exits(code=None)
    assert reports(decision)[-1] == NodeLeft()
    assert agent.owner_state() is OwnerState.LEFT


def test_leave_without_guests_is_a_goodbye_at_once() -> None:
    agent = LoneAgent()
    assert reports(agent.hears(OwnerReclaimed(notice_s=30, leaving=True)))[-1] == NodeLeft()


def test_leave_after_a_reclaim_is_a_goodbye_at_once() -> None:
    agent = LoneAgent()
    agent.hears(OwnerReclaimed(notice_s=30))
    assert agent.hears(OwnerReclaimed(notice_s=30)).empty
    assert reports(agent.hears(OwnerReclaimed(notice_s=30, leaving=True))) == [NodeLeft()]
    assert agent.owner_state() is OwnerState.LEFT


def test_a_kill_while_leaving_is_a_goodbye() -> None:
    agent = an_agent_with_a_guest()
    agent.hears(OwnerReclaimed(notice_s=30, leaving=True))
    assert reports(agent.hears(OwnerKilled())) == []
    told = reports(agent.exits(code=137, cause=EndReason.KILLED_BY_OWNER))
    assert [type(report).__name__ for report in told] == ["RunEnded", "NodeLeft"]  # the goodbye comes last
    assert agent.owner_state() is OwnerState.LEFT


@pytest.mark.parametrize("word", [OwnerReclaimed(notice_s=5), OwnerPaused(), OwnerResumed()])
def test_a_machine_that_left_takes_no_word_but_a_kill(word: AgentEvent) -> None:
    agent = LoneAgent()
    agent.hears(OwnerReclaimed(notice_s=30, leaving=True))
    assert agent.hears(word).empty
    agent.hears(OwnerKilled())
    assert agent.owner_state() is OwnerState.LEFT
