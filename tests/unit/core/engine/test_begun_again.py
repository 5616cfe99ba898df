"""A coordinator that begins again gives no job to a machine that it has not heard from yet."""

from __future__ import annotations

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.events import CoordinatorStarted, NodeFellSilent
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.runs.retry_limits import AT_MOST, Trouble
from tests.builders import TIMING, Headquarters, orders
from tests.builders.gangs import a_gang_spec

START_ATTEMPTS = AT_MOST[Trouble.START_FAILED]


def begun_again(*nodes: str) -> Headquarters:
    headquarters = Headquarters()
    for node in nodes:
        headquarters.joins(node)
    headquarters.later(60).hears(CoordinatorStarted())
    return headquarters


def test_who_has_said_hello_gets_the_job_whoever_else_may_be_gone() -> None:
    headquarters = begun_again("alpha", "beta")
    headquarters.joins("beta")
    [(node, order)] = orders(headquarters.submits())
    assert (node, type(order)) == ("beta", StartRun)


def test_a_job_that_nobody_heard_of_could_run_waits_for_the_first_hello_and_is_told_why() -> None:
    headquarters = begun_again("alpha")
    assert orders(headquarters.submits()) == []
    verdicts = headquarters.engine.explain(headquarters.now_s, headquarters.job("job").id)
    assert [one.refusal.why for one in verdicts if one.refusal] == [Why.NODE_UNHEARD]
    [(node, order)] = orders(headquarters.joins("alpha"))
    assert (node, type(order)) == ("alpha", StartRun)


def test_a_gang_waits_for_as_many_hellos_as_it_needs() -> None:
    headquarters = begun_again("alpha", "beta")
    headquarters.submits("job", a_gang_spec())
    assert orders(headquarters.joins("alpha")) == []
    assert {node for node, _ in orders(headquarters.joins("beta"))} == {"alpha", "beta"}


def test_who_stays_away_falls_silent_and_is_heard_again_later() -> None:
    headquarters = begun_again("alpha")
    headquarters.hears(NodeFellSilent(node_id=NodeId("alpha"), last_heard_s=headquarters.now_s))
    headquarters.submits()
    [(_, order)] = orders(headquarters.later(60).joins("alpha"))
    assert isinstance(order, StartRun)


def test_a_job_that_moved_often_since_the_backup_is_started_again_until_its_number_is_new() -> None:
    """Its vault has seen more runs of it than the coordinator knows of: no fault of the job's."""
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    for epoch in range(1, START_ATTEMPTS + 2):
        headquarters.ended(f"job-e{epoch}", EndReason.REFUSED, why=Why.EPOCH_USED, detail="epoch 9 has begun")
        [(_, order)] = orders(headquarters.later(TIMING.avoid_s + 1).fires("replan"))
        assert isinstance(order, StartRun)
        assert order.epoch == epoch + 1
