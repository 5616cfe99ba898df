"""The stations: handshake, terms, numbering, and going on after a restart of either side."""

from __future__ import annotations

from gpunion.domain.commit import InboxMark, NumberedOrder, NumberedReport, SavedAgent, SavedCampus
from gpunion.domain.events import (
    AgentStarted,
    GuestStarted,
    LeaseRenewed,
    NodeHeard,
    NodeReported,
    OrderReceived,
    OwnerKilled,
    OwnerPaused,
    OwnerReclaimed,
    OwnerResumed,
    TimerFired,
)
from gpunion.domain.frames import Heartbeat, Hello, LeaseGrant, OrderFrame, Progress, ReportFrame, Welcome
from gpunion.domain.guest import Tenure
from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.job import JobPhase
from gpunion.domain.node import NodePhase
from gpunion.domain.reports import NodePaused, NoticeGiven, RunEnded
from gpunion.engine.agent_station import AgentStation
from gpunion.engine.coordinator_station import CoordinatorStation
from gpunion.policy.policies import BASELINE
from tests.builders import TIMING, a_campus, a_guest, a_save_order, a_spec, a_start, a_stop, facts

ALPHA = NodeId("alpha")


def an_agent(**saved: object) -> AgentStation:
    state = SavedAgent(incarnation="first", **saved)  # type: ignore[arg-type]
    return AgentStation(node_id=ALPHA, facts=facts(gpus=2), saved=state, timing=TIMING)


def a_coordinator(
    saved: SavedCampus | None = None, *, term: int = 1, now_s: float = 50.0
) -> CoordinatorStation:
    return CoordinatorStation(
        saved=saved or SavedCampus(), policies=BASELINE, timing=TIMING, term=term, now_s=now_s
    )


def a_welcome(**changes: object) -> Welcome:
    welcome = {
        "term": 1,
        "hello_sent_s": 100.0,
        "orders_before": 0,
        "ack": 0,
        "timing": TIMING,
        "sent_s": 100.0,
    }
    return Welcome(**{**welcome, **changes})  # type: ignore[arg-type]


def an_order_frame(seq: int, **changes: object) -> OrderFrame:
    frame = {"term": 1, "seq": seq, "ack": 0, "sent_s": 100.0, "order": a_start()}
    return OrderFrame(**{**frame, **changes})  # type: ignore[arg-type]


def take(station: AgentStation, now_s: float, frame: Welcome | OrderFrame | LeaseGrant) -> list[object]:
    """Lets a frame in and commits what it says."""
    events = station.frame_arrived(now_s, frame)
    for event, seq in events:
        station.committed(station.decide(now_s, event, seq))
    return [event for event, _ in events]


def hello(station: CoordinatorStation, now_s: float, **changes: object) -> None:
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


# --- the agent's side -------------------------------------------------------------------------------


def test_a_welcome_gives_a_lease_that_counts_from_the_hello() -> None:
    agent = an_agent()
    greeting = agent.hello(100.0)
    assert (greeting.incarnation, greeting.guests, greeting.ack) == ("first", (), 0)
    assert agent.frame_arrived(101.0, a_welcome()) == [(LeaseRenewed(until_s=100.0 + TIMING.lease_s), None)]
    assert agent.connected


def test_nothing_but_a_welcome_is_heard_before_the_welcome() -> None:
    agent = an_agent()
    assert agent.frame_arrived(100.0, an_order_frame(1)) == []
    assert list(agent.outgoing(100.0)) == []


def test_a_coordinator_that_was_replaced_has_no_say_any_more() -> None:
    agent = an_agent()
    take(agent, 100.0, a_welcome(term=2))
    assert agent.frame_arrived(100.0, a_welcome(term=1)) == []
    assert agent.frame_arrived(100.0, an_order_frame(1, term=1)) == []
    assert take(agent, 100.0, an_order_frame(1, term=2)) == [OrderReceived(order=a_start())]
    late = LeaseGrant(term=1, heartbeat_sent_s=100.0, lease_s=99.0, ack=0, sent_s=100.0)
    assert agent.frame_arrived(101.0, late) == []


def test_a_heartbeat_answered_renews_the_lease_from_when_it_was_sent() -> None:
    agent = an_agent()
    take(agent, 100.0, a_welcome())
    grant = LeaseGrant(term=1, heartbeat_sent_s=104.0, lease_s=10.0, ack=0, sent_s=104.5)
    assert take(agent, 105.0, grant) == [LeaseRenewed(until_s=114.0)]


def test_orders_are_taken_once_and_in_order() -> None:
    agent = an_agent()
    take(agent, 100.0, a_welcome())
    assert take(agent, 100.0, an_order_frame(2)) == []
    assert take(agent, 100.0, an_order_frame(1)) == [OrderReceived(order=a_start())]
    assert take(agent, 100.0, an_order_frame(1)) == []
    assert agent.heartbeat(101.0).ack == 1


def test_orders_from_before_this_incarnation_are_skipped() -> None:
    agent = an_agent()
    take(agent, 100.0, a_welcome(orders_before=6))
    assert take(agent, 100.0, an_order_frame(7)) == [OrderReceived(order=a_start())]


def test_an_order_overtaken_by_a_newer_lease_waits_to_be_sent_again() -> None:
    agent = an_agent()
    take(agent, 100.0, a_welcome())
    take(agent, 105.0, LeaseGrant(term=1, heartbeat_sent_s=104.0, lease_s=10.0, ack=0, sent_s=105.0))
    assert take(agent, 105.0, an_order_frame(1, sent_s=102.0)) == []
    assert take(agent, 106.0, an_order_frame(1, sent_s=105.5)) == [OrderReceived(order=a_start())]


def test_a_deadline_in_an_order_is_told_in_the_agent_s_own_time() -> None:
    agent = an_agent()
    take(agent, 100.0, a_welcome(sent_s=40.0))
    frame = an_order_frame(1, sent_s=40.0, order=a_save_order(by_s=70.0))
    [event] = take(agent, 100.0, frame)
    assert event == OrderReceived(order=a_save_order(by_s=130.0))


def test_reports_are_numbered_sent_again_and_acknowledged() -> None:
    agent = an_agent()
    commit = agent.decide(100.0, OwnerPaused())
    assert commit.reports == (NumberedReport(seq=1, report=NodePaused()),)
    agent.committed(commit)
    take(agent, 100.0, a_welcome())
    frames = list(agent.outgoing(100.0))
    assert frames == [ReportFrame(seq=1, ack=0, sent_s=100.0, report=NodePaused())]
    assert list(agent.outgoing(101.0)) == []
    assert len(list(agent.outgoing(100.0 + TIMING.resend_s))) == 1
    take(agent, 104.0, LeaseGrant(term=1, heartbeat_sent_s=104.0, lease_s=10.0, ack=1, sent_s=104.0))
    assert list(agent.outgoing(200.0)) == []


def test_a_broken_connection_silences_the_agent_until_the_next_welcome() -> None:
    agent = an_agent()
    take(agent, 100.0, a_welcome())
    agent.committed(agent.decide(100.0, OwnerPaused()))
    agent.disconnected()
    assert list(agent.outgoing(100.0)) == []


def test_timers_fire_as_events_and_only_once() -> None:
    agent = an_agent()
    take(agent, 100.0, a_welcome())
    take(agent, 100.0, an_order_frame(1))
    assert agent.next_due_s() == 110.0
    assert agent.due(109.9) is None
    event = agent.due(110.0)
    assert event == TimerFired(key="lease")
    agent.committed(agent.decide(110.0, event))
    assert agent.due(110.0) is None


def test_an_agent_goes_on_from_its_disk_with_everything_but_the_lease() -> None:
    agent = an_agent()
    take(agent, 100.0, a_welcome())
    take(agent, 100.0, an_order_frame(1))
    agent.committed(agent.decide(101.0, OwnerPaused()))
    again = AgentStation(node_id=ALPHA, facts=facts(gpus=2), saved=agent.saved(), timing=TIMING)
    assert again.engine.state.guests == agent.engine.state.guests
    assert again.engine.state.epochs == {"job": 1}
    assert again.engine.state.holding.tenure is Tenure.PAUSED
    assert again.engine.state.lease_until_s is None
    assert again.hello(105.0).ack == 1
    assert again.hello(105.0).guests == (RunId("job-e1"),)
    assert again.reports.waiting == {1: NodePaused()}
    assert again.timers.items() == agent.timers.items()


def test_facts_that_change_are_told_with_the_next_hello_and_judged_by_at_once() -> None:
    agent = an_agent()
    agent.change_facts(facts(gpus=1))
    assert agent.hello(0.0).facts == agent.engine.facts == facts(gpus=1)
    assert agent.timing is TIMING


# --- the coordinator's side -------------------------------------------------------------------------


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
        TimerFired(key="checkpoint:job-e1"),
        NodeReported(node_id=source.node_id, report=NodePaused()),
    ):
        before = campus.station.decide(campus.now_s, event)
        after = again.decide(campus.now_s, event)
        assert after == before
        campus.station.committed(before)
        again.committed(after)


# --- both -------------------------------------------------------------------------------------------


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


def test_an_agent_that_never_ran_anything_restarts_quietly() -> None:
    agent = an_agent(records=(a_guest(),))
    commit = agent.decide(100.0, AgentStarted(found=()))
    assert [numbered.seq for numbered in commit.reports] == [1]
    assert agent.engine.state.guests != {}
    agent.committed(commit)
    assert agent.engine.state.guests == {}
    event = GuestStarted(run_id=RunId("job-e1"), restored=None, resumed_step=0, restore_s=0)
    assert agent.decide(101.0, event).volatile
    assert agent.decide(101.0, OwnerKilled()).reports[0].seq == 2
