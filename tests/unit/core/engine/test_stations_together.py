"""Both stations, one of them dead or out of reach for a while."""

from __future__ import annotations

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.protocol.events import NodeReported, OwnerPaused, OwnerResumed
from gpunion.domain.protocol.reports import RunEnded
from tests.builders import TIMING, a_campus, a_spec

ALPHA = NodeId("alpha")


def test_a_coordinator_that_dies_and_is_replaced_loses_nobody() -> None:
    campus = a_campus()
    campus.submits("job", a_spec(expected_s=60))
    campus.advance(10)
    campus.falls()
    campus.advance(5)
    campus.rises()
    campus.advance(100)
    assert (campus.job().phase, campus.job().epoch) == (JobPhase.SUCCEEDED, 1)


def test_a_coordinator_away_for_longer_than_the_lease_costs_the_work_since_the_last_save() -> None:
    campus = a_campus()
    campus.submits("job", a_spec(expected_s=60))
    campus.advance(10)
    campus.falls()
    campus.advance(60)
    assert [machine.living() for machine in campus.machines.values()] == [[], []]
    campus.rises()
    campus.advance(200)
    assert (campus.job().phase, campus.job().epoch) == (JobPhase.SUCCEEDED, 2)


def test_an_agent_that_dies_and_comes_back_in_time_keeps_its_guest() -> None:
    campus = a_campus(["alpha"])
    campus.submits("job", a_spec(expected_s=60))
    campus.advance(10)
    machine = campus.machines[ALPHA]
    machine.crashes()
    campus.advance(4)
    machine.restarts()
    campus.advance(100)
    assert (campus.job().phase, campus.job().epoch) == (JobPhase.SUCCEEDED, 1)


def test_a_guest_outlives_its_agent_only_until_the_lease_is_over() -> None:
    campus = a_campus(["alpha"])
    campus.submits("job", a_spec(expected_s=1000))
    campus.advance(10)
    machine = campus.machines[ALPHA]
    machine.crashes()
    campus.advance(TIMING.lease_s + TIMING.grace_s)
    assert machine.living() == []
    machine.restarts()
    campus.advance(1)
    ends = [c.event.report for c in campus.commits if isinstance(c.event, NodeReported)]
    assert [end.reason.value for end in ends if isinstance(end, RunEnded)] == ["lease_ended"]


def test_a_broken_connection_is_taken_up_again_without_loss() -> None:
    campus = a_campus(["alpha"])
    campus.submits("job", a_spec(expected_s=30))
    campus.hangs_up("alpha")
    campus.machines[ALPHA].owner(OwnerPaused())
    campus.advance(40)
    assert campus.job().phase is JobPhase.SUCCEEDED
    assert campus.node("alpha").phase is NodePhase.PAUSED
    campus.machines[ALPHA].owner(OwnerResumed())
    assert campus.node("alpha").phase is NodePhase.SHARING


def test_an_owner_s_kill_while_the_agent_was_dead_is_heard_on_restart() -> None:
    campus = a_campus(["alpha", "beta"])
    campus.submits("job", a_spec(expected_s=60))
    campus.advance(5)
    machine = campus.machine_of()
    machine.crashes()
    for process in machine.living():
        machine.exits(process.order.run_id, None)
    machine.restarts(killed_meanwhile=True)
    campus.advance(200)
    assert campus.job().phase is JobPhase.SUCCEEDED
    assert campus.node(machine.node_id).phase is NodePhase.RECLAIMED
