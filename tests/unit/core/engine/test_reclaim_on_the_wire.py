"""A reclaim between agents and their coordinator, who may be dead or away meanwhile."""

from __future__ import annotations

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.guest import OwnerState
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.protocol.events import OwnerKilled, OwnerReclaimed, OwnerResumed
from gpunion.domain.reasons.reason import Why
from tests.builders import a_campus, a_spec


def test_on_the_wire_a_reclaim_loses_nothing_and_frees_the_machine_at_once() -> None:
    campus = a_campus()
    campus.submits("job", a_spec(expected_s=100))
    campus.advance(30)
    source = campus.machine_of()
    source.owner(OwnerReclaimed(notice_s=30))
    assert source.station.engine.state.holding.owner_state is OwnerState.RECLAIMED
    assert campus.machine_of() is not source
    campus.advance(71)
    assert campus.job().phase is JobPhase.SUCCEEDED
    assert [m.steps_redone for m in campus.station.engine.state.migrations.values()] == [0]


def test_on_the_wire_a_save_that_takes_too_long_is_cut_at_the_deadline() -> None:
    campus = a_campus()
    campus.submits("job", a_spec(expected_s=100))
    campus.advance(30)
    source = campus.machine_of()
    source.ships = False
    source.owner(OwnerReclaimed(notice_s=20))
    campus.advance(19.9)
    assert source.shipping != {}
    campus.advance(0.2)
    assert source.shipping == {}
    assert source.station.engine.state.holding.owner_state is OwnerState.RECLAIMED
    assert Why.FELL_BACK in campus.whys("job")
    campus.advance(300)
    assert campus.job().phase is JobPhase.SUCCEEDED


def test_on_the_wire_a_program_that_never_answers_is_ended_at_the_deadline() -> None:
    campus = a_campus()
    campus.submits("job", a_spec(expected_s=100))
    campus.advance(30)
    source = campus.machine_of()
    source.answers = False
    source.owner(OwnerReclaimed(notice_s=20))
    campus.advance(19)
    assert len(source.living()) == 1
    campus.advance(1)
    assert source.living() == []
    campus.advance(200)
    assert campus.job().phase is JobPhase.SUCCEEDED


def test_on_the_wire_a_kill_is_obeyed_with_the_coordinator_dead() -> None:
    campus = a_campus()
    campus.submits("job", a_spec(expected_s=100))
    campus.advance(5)
    source = campus.machine_of()
    campus.falls()
    source.owner(OwnerKilled())
    assert source.living() == []
    campus.advance(3)
    campus.rises()
    campus.advance(200)
    assert campus.job().phase is JobPhase.SUCCEEDED
    assert Why.OWNER_KILLED in campus.whys("job")


def test_on_the_wire_an_agent_saves_by_itself_when_the_coordinator_is_away() -> None:
    campus = a_campus()
    campus.submits("job", a_spec(expected_s=100))
    campus.advance(20)
    source = campus.machine_of()
    campus.falls()
    campus.advance(6)
    source.owner(OwnerReclaimed(notice_s=30))
    campus.advance(3)
    assert source.living() == []
    assert campus.vault.sealed[campus.job().id] != []
    campus.advance(5)
    campus.rises()
    campus.advance(200)
    assert campus.job().phase is JobPhase.SUCCEEDED
    assert [m.steps_redone for m in campus.station.engine.state.migrations.values()] == [0]


def test_on_the_wire_an_owner_who_resumes_is_lent_from_again() -> None:
    campus = a_campus(["alpha"])
    machine = campus.machines[NodeId("alpha")]
    machine.owner(OwnerReclaimed(notice_s=30))
    campus.submits("job", a_spec(expected_s=50))
    assert campus.job().phase is JobPhase.PENDING
    machine.owner(OwnerResumed())
    campus.advance(60)
    assert campus.job().phase is JobPhase.SUCCEEDED
