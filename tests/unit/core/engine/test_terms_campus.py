"""Terms that change, as agent and coordinator act on them together."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.events import DepartureForeseen, OwnerChangedTerms
from gpunion.domain.reasons.reason import Why
from tests.builders import Campus, Machine, a_campus
from tests.builders.terms import NO_STUDENTS, by_terms


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
