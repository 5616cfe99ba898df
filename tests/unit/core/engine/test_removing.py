"""A machine that is gone is taken off the list; one that is here, or may hold a guest, is not."""

from __future__ import annotations

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.nodes.trust import NodeRemoved
from gpunion.domain.protocol.reports import NodeLeft
from gpunion.domain.reasons.reason import Why
from tests.builders import Headquarters, a_running_job, a_spec, whys

REMOVED = NodeRemoved(node_id=NodeId("alpha"), by="admin")


def test_a_machine_that_is_joined_stays_on_the_list() -> None:
    campus = Headquarters()
    campus.joins("alpha")
    decision = campus.hears(REMOVED)
    assert whys(decision) == [Why.NODE_STAYS]
    assert decision.changes == ()


def test_a_machine_that_left_is_off_the_list_until_it_joins_again() -> None:
    campus = Headquarters()
    campus.joins("alpha")
    campus.reported("alpha", NodeLeft())
    assert whys(campus.hears(REMOVED)) == [Why.NODE_REMOVED]
    assert campus.node().removed
    assert campus.hears(REMOVED).empty
    campus.joins("alpha", incarnation="another")
    assert not campus.node().removed


def test_a_job_hears_nothing_of_machines_that_have_left() -> None:
    campus = Headquarters()
    for name in ("alpha", "beta"):
        campus.joins(name)
    campus.reported("beta", NodeLeft())
    campus.submits("job", a_spec(gpus=1))
    assert [verdict.node for verdict in campus.engine.explain(campus.now_s, campus.job().id)] == ["alpha"]


def test_a_silent_machine_goes_once_its_guests_are_certainly_gone() -> None:
    campus = a_running_job(nodes=("alpha",))
    campus.silent("alpha")
    assert whys(campus.hears(REMOVED)) == [Why.NODE_STAYS]
    campus.later(10_000).fires("give_up:job-e1")
    assert whys(campus.hears(REMOVED))[:2] == [Why.OWNER_LEFT, Why.NODE_REMOVED]
    assert (campus.node().phase, campus.node().removed) == (NodePhase.LEFT, True)


def test_removing_a_machine_nobody_knows_changes_nothing() -> None:
    decision = Headquarters().hears(REMOVED)
    assert (whys(decision), decision.changes) == ([Why.UNKNOWN_NODE], ())
