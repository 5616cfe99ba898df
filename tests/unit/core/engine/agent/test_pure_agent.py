"""An agent's station: handshake, lease, numbering, and going on from its disk."""

from __future__ import annotations

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.jobs.guest import OwnerState
from gpunion.domain.nodes.signs import Sign
from gpunion.domain.protocol.commit import NumberedReport, SavedAgent
from gpunion.domain.protocol.events import (
    AgentStarted,
    GuestStarted,
    LeaseRenewed,
    OrderReceived,
    OwnerKilled,
    OwnerPaused,
    SignsSeen,
    TimerFired,
)
from gpunion.domain.protocol.frames import LeaseGrant, OrderFrame, ReportFrame, Welcome
from gpunion.domain.protocol.reports import NodePaused, SignsShown
from gpunion.domain.protocol.timers import LeaseOver
from gpunion.engine.agent.pure_agent import PureAgent
from tests.builders import TIMING, a_guest, a_save_order, a_start, a_welcome, facts

ALPHA = NodeId("alpha")


def an_agent(**saved: object) -> PureAgent:
    state = SavedAgent(incarnation="first", **saved)  # type: ignore[arg-type]
    return PureAgent(node_id=ALPHA, facts=facts(gpus=2), saved=state, timing=TIMING)


def an_order_frame(seq: int, **changes: object) -> OrderFrame:
    frame = {"term": 1, "seq": seq, "ack": 0, "sent_s": 100.0, "order": a_start()}
    return OrderFrame(**{**frame, **changes})  # type: ignore[arg-type]


def take(station: PureAgent, now_s: float, frame: Welcome | OrderFrame | LeaseGrant) -> list[object]:
    """Lets a frame in and commits what it says."""
    events = station.frame_arrived(now_s, frame)
    for event, seq in events:
        station.committed(station.decide(now_s, event, seq))
    return [event for event, _ in events]


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


def test_signs_that_did_not_arrive_in_time_are_told_nobody_any_more() -> None:
    agent = an_agent()
    agent.hello(100.0)
    take(agent, 100.0, a_welcome())
    agent.committed(agent.decide(101.0, SignsSeen(signs=(Sign.KEYBOARD,))))
    agent.disconnected()
    agent.hello(9000.0)
    take(agent, 9001.0, a_welcome(hello_sent_s=9000.0))
    told = [frame.report for frame in agent.outgoing(9001.0) if isinstance(frame, ReportFrame)]
    assert told == [SignsShown(signs=None)]


def test_a_coordinator_put_back_to_an_earlier_day_is_noticed_by_the_orders_it_forgot() -> None:
    agent = an_agent(order_seq=3)
    agent.hello(100.0)
    assert agent.frame_arrived(101.0, a_welcome(orders_before=2)) == []
    assert (agent.forgotten, agent.connected) == (True, False)


def test_a_coordinator_put_back_to_an_earlier_day_is_noticed_by_the_reports_it_forgot() -> None:
    waiting = (NumberedReport(seq=5, report=NodePaused()),)
    agent = an_agent(reports=waiting, last_report_seq=5)
    agent.hello(100.0)
    assert agent.frame_arrived(101.0, a_welcome(ack=3)) == []
    assert agent.forgotten


def test_a_coordinator_that_knows_what_we_know_or_answers_an_older_hello_has_forgotten_nothing() -> None:
    waiting = (NumberedReport(seq=5, report=NodePaused()),)
    agent = an_agent(order_seq=3, reports=waiting, last_report_seq=5)
    agent.hello(105.0)
    agent.frame_arrived(105.5, a_welcome(hello_sent_s=100.0, orders_before=1, ack=2))
    agent.hello(106.0)
    agent.frame_arrived(107.0, a_welcome(hello_sent_s=106.0, orders_before=3, ack=4))
    assert (agent.forgotten, agent.connected) == (False, True)


def test_a_heartbeat_answered_renews_the_lease_from_when_it_was_sent() -> None:
    agent = an_agent()
    take(agent, 100.0, a_welcome())
    grant = LeaseGrant(term=1, heartbeat_sent_s=104.0, lease_s=10.0, ack=0, sent_s=104.5)
    assert take(agent, 105.0, grant) == [LeaseRenewed(until_s=114.0)]


def test_it_knows_for_how_long_its_guests_may_go_on_without_a_word() -> None:
    agent = an_agent()
    take(agent, 100.0, a_welcome())
    assert agent.guests_may_go_on_s(101.0) == 0.0  # there are none
    agent = an_agent(records=(a_guest(),))
    assert agent.guests_may_go_on_s(101.0) == 0.0  # nobody has granted a lease yet
    take(agent, 100.0, a_welcome())
    granted_s = TIMING.lease_s + agent.facts.terms.autonomy_s
    assert agent.guests_may_go_on_s(101.0) == 99.0 + granted_s - 100.0
    assert agent.guests_may_go_on_s(100.0 + granted_s + 1.0) == 0.0


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
    assert event == TimerFired(timer=LeaseOver())
    agent.committed(agent.decide(110.0, event))
    assert agent.due(110.0) is None


def test_an_agent_goes_on_from_its_disk_with_everything_but_the_lease() -> None:
    agent = an_agent()
    take(agent, 100.0, a_welcome())
    take(agent, 100.0, an_order_frame(1))
    agent.committed(agent.decide(101.0, OwnerPaused()))
    again = PureAgent(node_id=ALPHA, facts=facts(gpus=2), saved=agent.saved(), timing=TIMING)
    assert again.engine.state.guests == agent.engine.state.guests
    assert again.engine.state.epochs == {"job": 1}
    assert again.engine.state.holding.owner_state is OwnerState.PAUSED
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
