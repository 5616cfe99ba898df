"""A machine that says what it may not say is set apart: no guests, no leases, its jobs go on elsewhere."""

from __future__ import annotations

from collections.abc import Iterable

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.nodes.trust import NodeAccepted, NodeMisled
from gpunion.domain.protocol.events import OwnerReclaimed, OwnerResumed
from gpunion.domain.protocol.frames import Heartbeat, LeaseGrant, Progress, Welcome
from gpunion.domain.protocol.reports import NodeLeft, RunEnded
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.message_checks import REFUSED_MOST, REFUSED_WITHIN_S
from tests.builders import TIMING, Campus, Headquarters, a_campus, a_running_job, a_spec, whys

FENCE_S = TIMING.fence_s()
BECAUSE = "it lied"


def lies(campus: Campus, node: str, times: int, *, every_s: float = 0.0) -> None:
    """Heartbeats that speak of a run of another's."""
    note = Progress(run_id=RunId("nobody"), step=1, progress=1.0)
    for _ in range(times):
        campus.advance(every_s)
        beat = Heartbeat(sent_s=campus.now_s, ack=0, progress=(note,))
        for event, mark in campus.station.frame_arrived(campus.now_s, NodeId(node), beat):
            campus.decide(event, mark)
    campus.settle()


def isolated(headquarters: Headquarters, node: str = "alpha") -> Headquarters:
    headquarters.hears(NodeMisled(node_id=NodeId(node), because=BECAUSE))
    return headquarters


def accepts(headquarters: Headquarters, node: str = "alpha") -> list[Why]:
    return whys(headquarters.hears(NodeAccepted(node_id=NodeId(node), by="admin")))


def leases(frames: Iterable[object]) -> list[float]:
    return [frame.lease_s for frame in frames if isinstance(frame, LeaseGrant)]


def test_twenty_refused_messages_within_a_minute_isolate_their_sender() -> None:
    campus = a_campus(["alpha", "beta"])
    lies(campus, "alpha", REFUSED_MOST - 1)
    assert campus.node("alpha").isolated_because == ""
    lies(campus, "alpha", 1)
    because = "20 of its messages were refused within 60 s, the last one because there is no run 'nobody'"
    assert campus.node("alpha").isolated_because == because
    assert campus.node("beta").isolated_because == ""
    lies(campus, "alpha", REFUSED_MOST)
    assert campus.whys("alpha").count(Why.NODE_ISOLATED) == 1


def test_refusals_that_are_further_apart_isolate_nobody() -> None:
    campus = a_campus(["alpha"])
    lies(campus, "alpha", 3 * REFUSED_MOST, every_s=REFUSED_WITHIN_S / (REFUSED_MOST - 2))
    assert campus.node("alpha").isolated_because == ""


def test_a_job_on_an_isolated_machine_goes_on_elsewhere_and_is_never_alive_twice() -> None:
    campus = a_campus(["alpha", "beta"])
    campus.submits("job", a_spec(gpus=1))
    campus.advance(5.0)
    liar = campus.machine_of()
    lies(campus, liar.node_id, REFUSED_MOST)
    campus.advance(FENCE_S + 30.0)
    assert (campus.job().phase, campus.job().epoch) == (JobPhase.RUNNING, 2)
    assert campus.machine_of() is not liar
    assert liar.living() == []


def test_an_isolated_machine_keeps_its_connection_and_gets_no_lease() -> None:
    campus = a_campus(["alpha"])
    lies(campus, "alpha", REFUSED_MOST)
    node, station = NodeId("alpha"), campus.station
    list(station.outgoing(campus.now_s, node))
    station.frame_arrived(campus.now_s, node, Heartbeat(sent_s=campus.now_s, ack=0))
    assert leases(station.outgoing(campus.now_s, node)) == [0.0]
    for event, mark in station.frame_arrived(
        campus.now_s, node, campus.machines[node].station.hello(campus.now_s)
    ):
        campus.decide(event, mark)
    [welcome] = [one for one in station.outgoing(campus.now_s, node) if isinstance(one, Welcome)]
    assert not welcome.leased


def test_an_agent_that_is_welcomed_without_a_lease_starts_nobody() -> None:
    campus = a_campus(["alpha"])
    lies(campus, "alpha", REFUSED_MOST)
    machine = campus.machines[NodeId("alpha")]
    machine.crashes()
    machine.restarts()
    campus.advance(5.0)
    assert machine.station.connected
    until_s = machine.station.engine.state.lease_until_s
    assert until_s is None or until_s <= campus.now_s


def test_nobody_is_placed_on_an_isolated_machine_and_its_verdict_says_why() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    isolated(headquarters).submits()
    assert headquarters.job().phase is JobPhase.PENDING
    [verdict] = headquarters.engine.explain(headquarters.now_s, headquarters.job().id)
    assert verdict.refusal is not None
    assert verdict.refusal.why is Why.NODE_ISOLATED
    told = "it is isolated, since it lied; gpunion nodes accept alpha lets guests come again"
    assert verdict.refusal.sentence() == told
    assert accepts(headquarters) == [Why.NODE_ACCEPTED, Why.PLACED]


def test_the_word_of_its_owner_still_counts() -> None:
    campus = a_campus(["alpha"])
    lies(campus, "alpha", REFUSED_MOST)
    machine = campus.machines[NodeId("alpha")]
    machine.owner(OwnerReclaimed(notice_s=0))
    campus.advance(5.0)
    assert campus.node("alpha").phase is NodePhase.RECLAIMED
    machine.owner(OwnerResumed())
    campus.advance(5.0)
    assert campus.node("alpha").phase is NodePhase.SHARING
    assert campus.node("alpha").isolated_because


def test_isolation_outlives_the_coordinator_a_new_agent_and_a_farewell() -> None:
    headquarters = isolated(a_running_job()).restarts()
    assert headquarters.node().isolated_because == BECAUSE
    headquarters.joins("alpha", incarnation="second")
    assert headquarters.node().isolated_because == BECAUSE
    headquarters.reported("alpha", NodeLeft())
    headquarters.joins("alpha", incarnation="third")
    assert headquarters.node().isolated_because == BECAUSE


def test_falling_silent_and_being_heard_does_not_put_off_that_its_runs_are_given_up() -> None:
    headquarters = isolated(a_running_job(nodes=["alpha", "beta"]), "alpha")
    at_s = headquarters.timer_at("give_up:job-e1")
    assert at_s == headquarters.now_s + FENCE_S
    headquarters.later(FENCE_S / 2).silent("alpha")
    headquarters.joins("alpha")
    assert headquarters.timer_at("give_up:job-e1") == at_s
    headquarters.fires("give_up:job-e1")
    assert headquarters.run().end_reason is EndReason.NODE_LOST
    assert headquarters.run("job-e2").node_id == "beta"


def test_what_still_lives_there_when_it_is_accepted_goes_on() -> None:
    headquarters = isolated(a_running_job())
    assert accepts(headquarters) == [Why.NODE_ACCEPTED]
    assert headquarters.timer_at("give_up:job-e1") is None
    assert headquarters.job().phase is JobPhase.RUNNING


def test_a_silent_machine_that_is_accepted_is_still_silent() -> None:
    headquarters = isolated(a_running_job())
    headquarters.silent("alpha")
    accepts(headquarters)
    assert headquarters.timer_at("give_up:job-e1") is not None


def test_accepting_one_that_is_not_isolated_or_not_known_changes_nothing() -> None:
    headquarters = a_running_job()
    assert accepts(headquarters) == []
    assert accepts(headquarters, "nobody") == [Why.UNKNOWN_NODE]


def test_refused_reports_of_an_isolated_machine_are_told_no_more() -> None:
    headquarters = isolated(a_running_job())
    lie = RunEnded(
        run_id=RunId("ghost"), job_id=headquarters.job().id, epoch=1, reason=EndReason.FAILED, last_step=0
    )
    decision = headquarters.reported("alpha", lie)
    assert decision.empty
