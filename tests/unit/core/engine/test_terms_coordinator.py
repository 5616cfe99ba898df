"""A coordinator that hears of terms: what it learns, tells, and places by."""

from __future__ import annotations

from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.nodes.withheld import HoldCause
from gpunion.domain.protocol.reports import DepartureForetold, NodeReclaimed, NoticeGiven, TermsChanged
from gpunion.domain.reasons.reason import Why
from tests.builders import Headquarters, a_spec, facts, whys
from tests.builders.terms import HOUR, NO_STUDENTS, asked


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
