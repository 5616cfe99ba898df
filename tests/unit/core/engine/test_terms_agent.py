"""An agent whose owner's terms change, or take the machine back: who may stay, and who is told why not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.ids import RunId
from gpunion.domain.jobs.guest import OwnerState
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.nodes.withheld import HoldCause
from gpunion.domain.protocol.effects import KillGuest, LimitGuest, TellNotice, TerminateGuest
from gpunion.domain.protocol.events import (
    AgentStarted,
    GuestFound,
    GuestOverstepped,
    GuestStarted,
    OwnerChangedTerms,
    OwnerPaused,
    OwnerReclaimed,
    OwnerResumed,
)
from gpunion.domain.protocol.reports import NodeReclaimed, NoticeGiven, RunEnded, TermsChanged
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import GIB
from tests.builders import (
    LoneAgent,
    a_grant,
    a_start,
    an_agent_with_a_guest,
    deeds,
    facts,
    reports,
    timers_of,
    whys,
)
from tests.builders.terms import HOUR, NO_STUDENTS, WHY_NOT, asked, by_terms


def changes_terms(agent: LoneAgent, terms: Terms) -> OwnerChangedTerms:
    agent.engine.facts = replace(agent.engine.facts, terms=terms)
    return OwnerChangedTerms(said="a test")


def test_a_guest_the_terms_no_longer_admit_gets_the_notice_and_the_reason() -> None:
    agent = an_agent_with_a_guest(now_s=100.0)
    decision = agent.hears(changes_terms(agent, NO_STUDENTS))
    assert reports(decision) == [TermsChanged(terms=NO_STUDENTS, said="a test"), asked(160.0)]
    assert TellNotice(run_id=RunId("job-e1"), deadline_s=160.0, reason=WHY_NOT) in deeds(decision)
    assert LimitGuest(run_id=RunId("job-e1"), lease_until_s=113.0, kill_at_s=160.0) in deeds(decision)
    assert timers_of(decision)["deadline:guest:job-e1"] == 160.0
    assert agent.state.holding.owner_state is OwnerState.SHARING
    assert TerminateGuest(run_id=RunId("job-e1")) in deeds(agent.fires("term:guest:job-e1"))
    killed = agent.fires("deadline:guest:job-e1")
    assert KillGuest(run_id=RunId("job-e1"), cause=EndReason.DEADLINE) in deeds(killed)
    ended = agent.exits(code=None, cause=EndReason.DEADLINE)
    assert timers_of(ended) == {"own_save:guest:job-e1": None}
    assert not agent.state.guests


def test_terms_that_admit_it_again_take_the_notice_back() -> None:
    agent = an_agent_with_a_guest(now_s=100.0)
    agent.hears(changes_terms(agent, NO_STUDENTS))
    decision = agent.hears(changes_terms(agent, Terms()))
    assert reports(decision)[1:] == [asked(None, "")]
    assert TellNotice(run_id=RunId("job-e1"), deadline_s=None) in deeds(decision)
    assert timers_of(decision)["deadline:guest:job-e1"] is None


def test_without_a_coordinator_the_agent_saves_who_has_to_go() -> None:
    agent = an_agent_with_a_guest(now_s=100.0)
    agent.later(9.0)  # the lease was not renewed for a while
    agent.hears(changes_terms(agent, NO_STUDENTS))
    decision = agent.fires("own_save:guest:job-e1")
    assert Why.OWN_SAVE in whys(decision)


def test_near_a_coordinator_its_plan_is_waited_for() -> None:
    agent = an_agent_with_a_guest(now_s=100.0)
    agent.hears(changes_terms(agent, NO_STUDENTS))
    decision = agent.fires("own_save:guest:job-e1")
    assert timers_of(decision) == {"own_save:guest:job-e1": agent.now_s + 2.0}
    assert not deeds(decision)


def test_no_notice_in_the_terms_means_at_once() -> None:
    agent = an_agent_with_a_guest(now_s=100.0)
    decision = agent.hears(changes_terms(agent, replace(NO_STUDENTS, notice_s=0.0)))
    assert KillGuest(run_id=RunId("job-e1"), cause=EndReason.DEADLINE) in deeds(decision)


def test_who_takes_more_than_is_lent_goes_whatever_the_terms_say_later() -> None:
    agent = an_agent_with_a_guest(now_s=100.0)
    event = GuestOverstepped(run_id=RunId("job-e1"), detail="9 GiB on GPU 0, 8 are lent")
    decision = agent.hears(event)
    assert reports(decision) == [asked(160.0, "9 GiB on GPU 0, 8 are lent")]
    assert reports(agent.hears(event)) == []
    agent.hears(changes_terms(agent, Terms(max_guests=4)))
    assert agent.guest().leave_by_s == 160.0


def test_terms_changed_while_no_agent_ran_are_in_force_when_one_starts() -> None:
    agent = an_agent_with_a_guest(now_s=100.0)
    agent.engine.facts = replace(agent.engine.facts, terms=NO_STUDENTS)
    found = (GuestFound(run_id=RunId("job-e1"), alive=True),)
    decision = agent.hears(AgentStarted(found=found))
    assert asked(160.0) in reports(decision)
    agent.later(61.0)
    late = agent.hears(AgentStarted(found=found))
    assert KillGuest(run_id=RunId("job-e1"), cause=EndReason.DEADLINE) in deeds(late)


@pytest.mark.parametrize(
    ("terms", "why"),
    [
        (Terms(deny_people=("sam",)), Why.PERSON_NOT_ADMITTED),
        (Terms(allow_people=("kim",)), Why.PERSON_NOT_ADMITTED),
        (Terms(allow_labs=("physics",)), Why.LAB_NOT_ADMITTED),
        (Terms(cpus=0.5), Why.BEYOND_TERMS),
        (Terms(memory_bytes=GIB // 2), Why.BEYOND_TERMS),
    ],
)
def test_the_agent_itself_refuses_what_the_terms_do_not_lend(terms: Terms, why: Why) -> None:
    decision = LoneAgent(of=facts(gpus=2, terms=terms)).ordered(a_start())
    ended = reports(decision)[0]
    assert isinstance(ended, RunEnded)
    assert (ended.reason, ended.why) == (EndReason.REFUSED, why)


@pytest.mark.parametrize(
    "terms",
    [
        Terms(allow_people=("sam",), deny_labs=("students",)),  # in person before by lab
        Terms(allow_people=("kim",), allow_labs=("students",)),
        Terms(cpus=1.0, memory_bytes=GIB),
    ],
)
def test_and_admits_what_they_do(terms: Terms) -> None:
    agent = LoneAgent(of=facts(gpus=2, terms=terms))
    agent.ordered(a_start())
    assert agent.guest().user == "sam"


def test_the_one_who_came_last_is_the_one_too_many() -> None:
    agent = an_agent_with_a_guest(now_s=100.0)
    agent.later(1.0).renews()
    agent.ordered(a_start("abe-e1", gpu=1, grant=a_grant(1)))
    agent.hears(GuestStarted(run_id=RunId("abe-e1"), restored=None, resumed_step=0, restore_s=0.1))
    agent.hears(changes_terms(agent, Terms(max_guests=1)))
    assert agent.guest("job-e1").leave_by_s is None
    assert agent.guest("abe-e1").leave_why == "its owner now allows 1 guest"


def test_what_the_terms_took_they_give_back_and_the_owner_s_word_counts_more() -> None:
    agent = LoneAgent(now_s=100.0)
    decision = agent.hears(by_terms())
    assert reports(decision) == [
        NoticeGiven(deadline_s=130.0, cause=HoldCause.TERMS, detail=HOUR),
        NodeReclaimed(freed_after_s=0.0),
    ]
    agent.hears(OwnerResumed(cause=HoldCause.TERMS))
    assert agent.owner_state() == "sharing"
    agent.hears(by_terms())
    agent.hears(OwnerReclaimed(notice_s=10.0))
    assert agent.hears(OwnerResumed(cause=HoldCause.TERMS)).empty
    assert agent.owner_state() == "reclaimed"
    agent.hears(OwnerResumed())
    assert agent.owner_state() == "sharing"


@pytest.mark.parametrize("first", [OwnerPaused(), OwnerReclaimed(notice_s=10.0)])
def test_what_the_owner_said_before_stays_said(first: OwnerPaused | OwnerReclaimed) -> None:
    agent = LoneAgent(now_s=100.0)
    agent.hears(first)
    agent.hears(by_terms())
    agent.hears(OwnerResumed(cause=HoldCause.TERMS))
    assert agent.state.holding.owner_state is OwnerState.RECLAIMED


def test_a_pause_while_the_terms_have_it_outlasts_them() -> None:
    agent = LoneAgent(now_s=100.0)
    agent.hears(by_terms())
    agent.hears(OwnerPaused())
    agent.hears(OwnerResumed(cause=HoldCause.TERMS))
    assert agent.state.holding.owner_state is OwnerState.RECLAIMED


def test_the_guest_is_told_which_of_the_terms_it_was() -> None:
    agent = an_agent_with_a_guest(now_s=100.0)
    decision = agent.hears(by_terms())
    assert TellNotice(run_id=RunId("job-e1"), deadline_s=130.0, reason=HOUR) in deeds(decision)
    lone = an_agent_with_a_guest(now_s=100.0)
    hot = OwnerReclaimed(notice_s=30.0, gpus=(0,), cause=HoldCause.TERMS, detail="88 C, 83 are allowed")
    told = TellNotice(run_id=RunId("job-e1"), deadline_s=130.0, reason="GPU 0: 88 C, 83 are allowed")
    assert told in deeds(lone.hears(hot))
