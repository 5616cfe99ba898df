"""The coordinator's station: who is heard, what is numbered, and going on from its store."""

from __future__ import annotations

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.nodes.node import NodePhase
from gpunion.domain.protocol.commit import InboxMark, NumberedOrder, SavedCampus
from gpunion.domain.protocol.events import (
    NodeFellSilent,
    NodeHeard,
    NodeReported,
    OrderReceived,
    OwnerReclaimed,
    TimerFired,
)
from gpunion.domain.protocol.frames import (
    Heartbeat,
    Hello,
    LeaseGrant,
    OrderFrame,
    Progress,
    ReportFrame,
    Welcome,
)
from gpunion.domain.protocol.reports import NodePaused, NoticeGiven
from gpunion.domain.protocol.timers import coordinator_timer
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.policy.policies import BASELINE
from tests.builders import TIMING, a_campus, a_spec, a_start, a_stop, a_welcome, facts

ALPHA = NodeId("alpha")


def a_coordinator(saved: SavedCampus | None = None, *, term: int = 1, now_s: float = 50.0) -> PureCoordinator:
    return PureCoordinator(
        saved=saved or SavedCampus(), policies=BASELINE, timing=TIMING, term=term, now_s=now_s
    )


def hello(station: PureCoordinator, now_s: float, **changes: object) -> None:
    greeting = {
        "node_id": ALPHA,
        "incarnation": "first",
        "facts": facts(),
        "guests": (),
        "ack": 0,
        "sent_s": now_s,
    }
    frame = Hello(**{**greeting, **changes})  # type: ignore[arg-type]
    for event, mark in station.frame_arrived(now_s, ALPHA, frame):
        station.committed(station.decide(now_s, event, mark))


def falls_silent(station: PureCoordinator, now_s: float) -> None:
    event = station.due(now_s)
    assert isinstance(event, NodeFellSilent)
    station.committed(station.decide(now_s, event))


def test_a_hello_makes_a_node_join_and_be_welcomed() -> None:
    station = a_coordinator()
    hello(station, 100.0)
    assert list(station.outgoing(100.0, ALPHA)) == [a_welcome()]
    assert list(station.outgoing(100.0, ALPHA)) == []
    assert station.engine.state.nodes[ALPHA].phase is NodePhase.SHARING


def test_a_node_that_did_not_say_hello_is_not_listened_to() -> None:
    station = a_coordinator()
    assert station.frame_arrived(100.0, ALPHA, Heartbeat(sent_s=100.0, ack=0)) == []
    assert list(station.outgoing(100.0, NodeId("stranger"))) == []


def test_a_heartbeat_is_answered_with_a_lease_and_makes_no_event() -> None:
    station = a_coordinator()
    hello(station, 100.0)
    list(station.outgoing(100.0, ALPHA))
    assert station.frame_arrived(102.0, ALPHA, Heartbeat(sent_s=101.5, ack=0)) == []
    assert list(station.outgoing(102.0, ALPHA)) == [
        LeaseGrant(term=1, heartbeat_sent_s=101.5, lease_s=TIMING.lease_s, ack=0, sent_s=102.0)
    ]


def test_progress_in_a_heartbeat_is_noted_without_a_write() -> None:
    campus = a_campus(["alpha"])
    campus.submits("job", a_spec(expected_s=100))
    campus.advance(10)
    writes = len(campus.commits)
    frame = Heartbeat(
        sent_s=campus.now_s, ack=0, progress=(Progress(run_id=RunId("job-e1"), step=77, progress=0.7),)
    )
    assert campus.station.frame_arrived(campus.now_s, ALPHA, frame) == []
    assert campus.station.engine.state.progress[RunId("job-e1")] == (77, 0.7)
    assert len(campus.commits) == writes


def test_a_report_is_taken_once_with_its_mark_and_in_the_coordinator_s_time() -> None:
    station = a_coordinator()
    hello(station, 100.0, sent_s=40.0)
    frame = ReportFrame(seq=1, ack=0, sent_s=40.0, report=NoticeGiven(deadline_s=70.0))
    [(event, mark)] = station.frame_arrived(100.0, ALPHA, frame)
    assert event == NodeReported(node_id=ALPHA, report=NoticeGiven(deadline_s=130.0))
    assert mark == InboxMark(node_id=ALPHA, incarnation="first", seq=1)
    station.committed(station.decide(100.0, event, mark))
    assert station.frame_arrived(100.0, ALPHA, frame) == []


def test_a_report_out_of_order_waits_for_the_one_before() -> None:
    station = a_coordinator()
    hello(station, 100.0)
    frame = ReportFrame(seq=2, ack=0, sent_s=100.0, report=NodePaused())
    assert station.frame_arrived(100.0, ALPHA, frame) == []


def test_any_word_of_a_silent_node_is_heard_before_what_it_says() -> None:
    station = a_coordinator()
    hello(station, 100.0)
    event = station.due(106.0)
    assert event is not None
    station.committed(station.decide(106.0, event))
    frame = ReportFrame(seq=1, ack=0, sent_s=107.0, report=NodePaused())
    events = [event for event, _ in station.frame_arrived(107.0, ALPHA, frame)]
    assert events == [NodeHeard(node_id=ALPHA), NodeReported(node_id=ALPHA, report=NodePaused())]


def test_a_heartbeat_of_before_a_reboot_is_never_answered_with_a_lease() -> None:
    """Its word could not be committed, for want of room. By the clock of after it would last for days."""
    station = a_coordinator()
    hello(station, 100.0)
    falls_silent(station, 106.0)
    assert station.frame_arrived(107.0, ALPHA, Heartbeat(sent_s=1e6, ack=0))  # and nobody commits it
    hello(station, 200.0, sent_s=30.0)
    list(station.outgoing(200.0, ALPHA))
    falls_silent(station, 206.0)
    frame = ReportFrame(seq=1, ack=0, sent_s=37.0, report=NodePaused())
    for event, mark in station.frame_arrived(207.0, ALPHA, frame):
        station.committed(station.decide(207.0, event, mark))
    assert list(station.outgoing(207.0, ALPHA)) == []


def test_a_silence_is_due_once_and_timers_after_it() -> None:
    station = a_coordinator()
    hello(station, 100.0)
    assert station.next_due_s() == 106.0
    assert station.due(105.9) is None
    event = station.due(106.0)
    assert event is not None
    station.committed(station.decide(106.0, event))
    assert station.due(200.0) is None
    assert station.next_due_s() is None


def test_a_node_that_left_is_neither_heard_nor_missed() -> None:
    campus = a_campus(["alpha"])
    machine = campus.machines[ALPHA]
    machine.owner(OwnerReclaimed(notice_s=10, leaving=True))
    assert campus.node("alpha").phase is NodePhase.LEFT
    commits = len(campus.commits)
    assert campus.station.frame_arrived(campus.now_s, ALPHA, Heartbeat(sent_s=0.0, ack=0)) == []
    campus.station.leases.heard(ALPHA, campus.now_s)
    campus.advance(60)
    assert len(campus.commits) == commits


def test_a_node_that_left_hears_that_its_goodbye_arrived() -> None:
    campus = a_campus(["alpha"])
    machine = campus.machines[ALPHA]
    machine.linked = False
    machine.owner(OwnerReclaimed(notice_s=10, leaving=True))
    machine.linked = True
    campus.advance(4)
    assert campus.node("alpha").phase is NodePhase.LEFT
    campus.advance(4)
    assert machine.station.reports.waiting == {}


def test_orders_are_numbered_per_node_and_acknowledged_by_any_frame() -> None:
    campus = a_campus(["alpha"], gpus=2)
    campus.machines[ALPHA].linked = False
    for job in ("one", "two"):
        campus.submits(job, a_spec(expected_s=10))
    link = campus.station.links[ALPHA]
    assert list(link.orders.waiting) == [1, 2]
    campus.machines[ALPHA].linked = True
    campus.advance(5)
    assert link.orders.waiting == {}


def test_a_start_that_was_given_up_before_it_arrived_is_sent_as_a_stop() -> None:
    campus = a_campus(["alpha"])
    machine = campus.machines[ALPHA]
    machine.linked = False
    campus.submits("job", a_spec(expected_s=50))
    campus.advance(30)
    assert campus.job().phase is JobPhase.MIGRATING
    machine.linked = True
    campus.hangs_up("alpha")
    campus.advance(4)
    received = [c.event.order for c in machine.commits if isinstance(c.event, OrderReceived)]
    assert received == [a_stop("job-e1"), a_start("job-e2")]
    campus.advance(60)
    assert (campus.job().phase, campus.job().epoch) == (JobPhase.SUCCEEDED, 2)


def test_a_new_incarnation_gets_none_of_the_orders_of_the_old_one() -> None:
    station = a_coordinator()
    hello(station, 100.0)
    station.links[ALPHA].orders.push(a_stop())
    hello(station, 101.0, incarnation="second")
    [welcome] = station.outgoing(101.0, ALPHA)
    assert isinstance(welcome, Welcome)
    assert welcome.orders_before == 1


def test_the_same_incarnation_on_a_new_connection_gets_what_it_has_not_acknowledged() -> None:
    station = a_coordinator()
    hello(station, 100.0)
    for order in (a_stop("one-e1"), a_stop("two-e1")):
        station.links[ALPHA].orders.push(order)
    station.disconnected(ALPHA)
    station.disconnected(NodeId("stranger"))
    assert list(station.outgoing(100.5, ALPHA)) == []
    hello(station, 101.0, ack=1)
    welcome, frame = station.outgoing(101.0, ALPHA)
    assert isinstance(welcome, Welcome)
    assert isinstance(frame, OrderFrame)
    assert (welcome.orders_before, frame.seq) == (1, 2)


def test_a_coordinator_goes_on_from_its_store() -> None:
    campus = a_campus(["alpha"])
    campus.submits("job", a_spec(expected_s=1000))
    campus.advance(5)
    saved = campus.saved()
    again = a_coordinator(saved, term=2, now_s=campus.now_s)
    assert again.engine.state.records() == campus.station.engine.state.records()
    assert again.timers.items() == campus.station.timers.items()
    assert again.links[ALPHA].incarnation == "first"
    assert again.links[ALPHA].reports.last_seq == campus.station.links[ALPHA].reports.last_seq
    assert again.leases.last_heard_s(ALPHA) == campus.now_s


def test_orders_not_yet_acknowledged_are_in_the_store() -> None:
    saved = SavedCampus(
        orders=(NumberedOrder(node_id=ALPHA, seq=4, order=a_stop()),), last_order_seq=((ALPHA, 4),)
    )
    station = a_coordinator(saved)
    assert station.links[ALPHA].orders.waiting == {4: a_stop()}


def test_a_mark_of_a_former_incarnation_does_not_count_for_the_new_one() -> None:
    saved = SavedCampus(marks=(InboxMark(node_id=ALPHA, incarnation="former", seq=9),))
    assert a_coordinator(saved).links[ALPHA].reports.last_seq == 0


def test_silent_and_left_nodes_are_not_waited_for_after_a_restart() -> None:
    campus = a_campus(["alpha", "beta"])
    campus.machines[ALPHA].linked = False
    campus.advance(10)
    campus.machines[NodeId("beta")].owner(OwnerReclaimed(notice_s=0, leaving=True))
    again = a_coordinator(campus.saved(), term=2, now_s=campus.now_s)
    assert again.leases.next_s() is None


def test_the_same_event_gives_the_same_decision_before_and_after_a_restart() -> None:
    campus = a_campus(["alpha", "beta"])
    campus.submits("job", a_spec(expected_s=1000))
    campus.advance(5)
    source = campus.machine_of()
    again = a_coordinator(campus.saved(), term=2, now_s=campus.now_s)
    again.engine.state.progress.update(campus.station.engine.state.progress)
    for event in (
        NodeReported(node_id=source.node_id, report=NoticeGiven(deadline_s=campus.now_s + 60)),
        TimerFired(timer=coordinator_timer("checkpoint:job-e1")),
        NodeReported(node_id=source.node_id, report=NodePaused()),
    ):
        before = campus.station.decide(campus.now_s, event)
        after = again.decide(campus.now_s, event)
        assert after == before
        campus.station.committed(before)
        again.committed(after)
