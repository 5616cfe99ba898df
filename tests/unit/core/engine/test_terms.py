"""An owner's terms in force: who may stay, until when a machine is lent, and going when it is safe."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.checkpoint import CheckpointTrouble
from gpunion.domain.effects import KillGuest, LimitGuest, ShipCheckpoint, TellNotice, TerminateGuest
from gpunion.domain.events import (
    AgentStarted,
    DepartureForeseen,
    GuestFound,
    GuestOverstepped,
    GuestStarted,
    OwnerChangedTerms,
    OwnerPaused,
    OwnerReclaimed,
    OwnerResumed,
)
from gpunion.domain.guest import Tenure
from gpunion.domain.ids import RunId
from gpunion.domain.job import JobPhase
from gpunion.domain.node import NodePhase
from gpunion.domain.reasons import Why
from gpunion.domain.reports import (
    DepartureForetold,
    GuestAskedToGo,
    NodeReclaimed,
    NoticeGiven,
    RunEnded,
    TermsChanged,
)
from gpunion.domain.resources import GIB
from gpunion.domain.run import EndReason
from gpunion.domain.terms import Terms
from gpunion.domain.withheld import HoldCause
from tests.builders import (
    Campus,
    Headquarters,
    LoneAgent,
    Machine,
    a_campus,
    a_grant,
    a_guest,
    a_spec,
    a_start,
    an_agent_with_a_guest,
    deeds,
    facts,
    reports,
    timers_of,
    whys,
)

NO_STUDENTS = Terms(deny_labs=("students",), notice_s=60.0)
WHY_NOT = "its owner no longer admits guests of lab 'students'"
HOUR = "it is not lent at this hour"


def by_terms(notice_s: float = 30.0, **more: object) -> OwnerReclaimed:
    return OwnerReclaimed(notice_s=notice_s, cause=HoldCause.TERMS, detail=HOUR, **more)  # type: ignore[arg-type]


def tenure(agent: LoneAgent) -> str:
    return agent.state.holding.tenure.value


def changes_terms(agent: LoneAgent, terms: Terms) -> OwnerChangedTerms:
    agent.engine.facts = replace(agent.engine.facts, terms=terms)
    return OwnerChangedTerms(said="a test")


def asked(deadline_s: float | None, why: str = WHY_NOT) -> GuestAskedToGo:
    guest = a_guest()
    return GuestAskedToGo(
        run_id=guest.run_id, job_id=guest.job_id, epoch=1, deadline_s=deadline_s, detail=why
    )


# --- on the machine -----------------------------------------------------------------------------------


def test_a_guest_the_terms_no_longer_admit_gets_the_notice_and_the_reason() -> None:
    agent = an_agent_with_a_guest(now_s=100.0)
    decision = agent.hears(changes_terms(agent, NO_STUDENTS))
    assert reports(decision) == [TermsChanged(terms=NO_STUDENTS, said="a test"), asked(160.0)]
    assert TellNotice(run_id=RunId("job-e1"), deadline_s=160.0, reason=WHY_NOT) in deeds(decision)
    assert LimitGuest(run_id=RunId("job-e1"), lease_until_s=113.0, kill_at_s=160.0) in deeds(decision)
    assert timers_of(decision)["deadline:guest:job-e1"] == 160.0
    assert agent.state.holding.tenure is Tenure.SHARING
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
    assert agent.guest("abe-e1").leave_why == "its owner now allows 1 guest(s)"


# --- a machine that its terms take back ----------------------------------------------------------------


def test_what_the_terms_took_they_give_back_and_the_owner_s_word_counts_more() -> None:
    agent = LoneAgent(now_s=100.0)
    decision = agent.hears(by_terms())
    assert reports(decision) == [
        NoticeGiven(deadline_s=130.0, cause=HoldCause.TERMS, detail=HOUR),
        NodeReclaimed(freed_after_s=0.0),
    ]
    agent.hears(OwnerResumed(cause=HoldCause.TERMS))
    assert tenure(agent) == "sharing"
    agent.hears(by_terms())
    agent.hears(OwnerReclaimed(notice_s=10.0))
    assert agent.hears(OwnerResumed(cause=HoldCause.TERMS)).empty
    assert tenure(agent) == "reclaimed"
    agent.hears(OwnerResumed())
    assert tenure(agent) == "sharing"


@pytest.mark.parametrize("first", [OwnerPaused(), OwnerReclaimed(notice_s=10.0)])
def test_what_the_owner_said_before_stays_said(first: OwnerPaused | OwnerReclaimed) -> None:
    agent = LoneAgent(now_s=100.0)
    agent.hears(first)
    agent.hears(by_terms())
    agent.hears(OwnerResumed(cause=HoldCause.TERMS))
    assert agent.state.holding.tenure is Tenure.RECLAIMED


def test_a_pause_while_the_terms_have_it_outlasts_them() -> None:
    agent = LoneAgent(now_s=100.0)
    agent.hears(by_terms())
    agent.hears(OwnerPaused())
    agent.hears(OwnerResumed(cause=HoldCause.TERMS))
    assert agent.state.holding.tenure is Tenure.RECLAIMED


def test_the_guest_is_told_which_of_the_terms_it_was() -> None:
    agent = an_agent_with_a_guest(now_s=100.0)
    decision = agent.hears(by_terms())
    assert TellNotice(run_id=RunId("job-e1"), deadline_s=130.0, reason=HOUR) in deeds(decision)
    lone = an_agent_with_a_guest(now_s=100.0)
    hot = OwnerReclaimed(notice_s=30.0, gpus=(0,), cause=HoldCause.TERMS, detail="88 C, 83 are allowed")
    told = TellNotice(run_id=RunId("job-e1"), deadline_s=130.0, reason="GPU 0: 88 C, 83 are allowed")
    assert told in deeds(lone.hears(hot))


# --- going when it is safe -----------------------------------------------------------------------------


def test_a_last_save_the_vault_did_not_take_is_sent_again_until_the_deadline() -> None:
    agent = an_agent_with_a_guest(now_s=100.0)
    agent.hears(OwnerReclaimed(notice_s=300.0, when_safe=True))
    agent.later(9.0)
    agent.fires("own_save")
    agent.saves("job-e1-a1")
    agent.exits(code=85)
    again = agent.cannot_ship("job-e1-a1", CheckpointTrouble.VAULT_UNAVAILABLE)
    assert timers_of(again) == {"ship:job-e1": agent.now_s + 2.0}
    assert not reports(again)
    assert isinstance(deeds(agent.fires("ship:job-e1"))[0], ShipCheckpoint)
    agent.ships("job-e1-a1")
    assert agent.state.holding.tenure is Tenure.RECLAIMED
    agent.hears(OwnerResumed())


def test_without_that_word_it_is_sent_again_too_and_lost_only_when_no_time_is_left() -> None:
    agent = an_agent_with_a_guest(now_s=100.0)
    agent.later(9.0).hears(OwnerReclaimed(notice_s=300.0))
    agent.fires("own_save")
    agent.saves("job-e1-a1")
    assert not reports(agent.cannot_ship("job-e1-a1", CheckpointTrouble.VAULT_UNAVAILABLE))
    agent.fires("ship:job-e1")
    agent.later(409.0 - 1.0 - agent.now_s)
    assert reports(agent.cannot_ship("job-e1-a1", CheckpointTrouble.VAULT_UNAVAILABLE))


def test_who_does_not_answer_is_asked_again() -> None:
    agent = an_agent_with_a_guest(now_s=100.0)
    agent.hears(OwnerReclaimed(notice_s=300.0, when_safe=True))
    while agent.guest().own_saves == 0:
        agent.renews()
        agent.fires("own_save")
    assert agent.now_s >= 110.0  # first the coordinator's plan was waited for
    agent.fires("save:job-e1")
    agent.renews()
    agent.fires("own_save")
    assert agent.guest().own_saves == 2


# --- at the coordinator --------------------------------------------------------------------------------


def test_the_coordinator_learns_terms_at_once_and_tells_them() -> None:
    campus = Headquarters()
    campus.joins("alpha")
    decision = campus.reported("alpha", TermsChanged(terms=NO_STUDENTS, said="deny.labs=students"))
    assert campus.node().facts.terms == NO_STUDENTS
    assert [r.sentence() for r in decision.reasons] == [
        "the owner of alpha changed the terms: deny.labs=students"
    ]
    campus.joins("alpha", facts(terms=Terms()))
    assert campus.node().facts.terms == Terms()


def test_a_known_end_keeps_new_guests_away_when_it_is_near() -> None:
    campus = Headquarters(now_s=100.0)
    campus.joins("alpha")
    campus.reported("alpha", DepartureForetold(at_s=200.0))
    campus.submits()
    (verdict,) = campus.engine.explain(campus.now_s, campus.job().id)
    assert verdict.refusal is not None
    assert verdict.refusal.sentence() == "by its owner's terms it is lent for 100 s more only"
    campus.reported("alpha", DepartureForetold(at_s=1000.0))
    assert campus.job().phase is JobPhase.STARTING


def test_an_agent_that_greets_again_has_to_foretell_again() -> None:
    campus = Headquarters(now_s=100.0)
    campus.joins("alpha")
    campus.reported("alpha", DepartureForetold(at_s=110.0))
    campus.later(50.0).joins("alpha")  # hours it has no more would keep everybody away for ever
    assert campus.node().known_end_s is None
    campus.submits()
    assert campus.job().phase is JobPhase.STARTING


def test_why_says_when_it_is_lent_again() -> None:
    campus = Headquarters()
    campus.joins("alpha")
    campus.reported("alpha", NoticeGiven(deadline_s=campus.now_s + 9, cause=HoldCause.TERMS, detail=HOUR))
    campus.reported("alpha", NodeReclaimed(freed_after_s=0.0))
    campus.reported("alpha", DepartureForetold(at_s=None, because=f"{HOUR}, again from Mon 19:00"))
    campus.submits()
    (verdict,) = campus.engine.explain(campus.now_s, campus.job().id)
    assert verdict.refusal is not None
    assert verdict.refusal.sentence() == "it is not lent at this hour, again from Mon 19:00"
    assert campus.node().phase is NodePhase.RECLAIMED


def test_words_about_nodes_and_runs_nobody_knows_change_nothing() -> None:
    campus = Headquarters()
    assert whys(campus.reported("nobody", DepartureForetold(at_s=None))) == [Why.UNKNOWN_NODE]
    campus.joins("alpha")
    assert not campus.reported("alpha", asked(900.0)).changes


def test_between_equals_the_owner_s_preference_decides() -> None:
    for lab, expected in (("students", "beta"), ("physics", "alpha")):
        campus = Headquarters()
        campus.joins("alpha")
        campus.joins("beta", facts(terms=Terms(prefer_labs=("students",))))
        campus.submits(spec=a_spec(lab=lab))
        assert campus.run().node_id == expected


# --- both together -------------------------------------------------------------------------------------


def now_with(machine: Machine, terms: Terms) -> None:
    machine.facts = replace(machine.facts, terms=terms)
    machine.station.change_facts(machine.facts)
    machine.owner(OwnerChangedTerms(said="a test"))


def running(campus: Campus) -> Machine:
    campus.submits()
    campus.advance(30.0)
    return campus.machine_of()


def test_a_guest_that_is_no_longer_welcome_goes_on_elsewhere_and_loses_nothing() -> None:
    campus = a_campus()
    machine = running(campus)
    now_with(machine, NO_STUDENTS)
    campus.advance(5.0)
    assert campus.machine_of() is not machine
    assert campus.job().phase is JobPhase.RUNNING
    durable = campus.job().durable
    assert durable is not None
    assert durable.step >= 30
    assert Why.TERMS_END_STAY in campus.whys("job")
    assert campus.node(machine.node_id).phase is NodePhase.SHARING
    assert campus.station.engine.state.asked_to_go == {}


def test_a_change_of_mind_lets_it_stay() -> None:
    campus = a_campus(["alpha"])
    machine = running(campus)
    machine.answers = False  # a last save was asked for and did not come yet
    now_with(machine, NO_STUDENTS)
    now_with(machine, Terms())
    campus.advance(200.0)
    assert campus.machine_of() is machine
    assert machine.living()
    assert campus.job().epoch == 1
    assert Why.MAY_STAY in campus.whys("job")


def test_an_end_by_the_hours_is_told_to_the_guest_and_its_story() -> None:
    campus = a_campus()
    machine = running(campus)
    machine.owner(DepartureForeseen(at_s=campus.now_s + 60.0))
    assert campus.node(machine.node_id).known_end_s == campus.now_s + 60.0
    machine.owner(by_terms(60.0))
    campus.advance(5.0)
    assert Why.TERMS_END_LENDING in campus.whys("job")
    assert campus.job().phase is JobPhase.RUNNING
    assert campus.machine_of() is not machine


def test_longer_alone_counts_only_when_the_coordinator_knows() -> None:
    campus = a_campus(["alpha"])
    machine = running(campus)
    terms = machine.station.engine.facts.terms
    now_with(machine, replace(terms, autonomy_s=600.0))
    assert machine.station.engine.facts.terms.autonomy_s == 0.0
    campus.hangs_up("alpha")
    campus.advance(3.0)
    assert machine.station.engine.facts.terms.autonomy_s == 600.0
    assert campus.node("alpha").facts.terms.autonomy_s == 600.0
    now_with(machine, replace(terms, autonomy_s=5.0))
    assert machine.station.engine.facts.terms.autonomy_s == 5.0
    campus.settle()
    process = machine.living()[0]
    assert process.lease_until_s is not None
    assert process.lease_until_s <= campus.now_s + 10.0 + 5.0 + 3.0
