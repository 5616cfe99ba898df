"""Numbered delivery, clock skew, named moments and the lease book."""

from __future__ import annotations

from gpunion.domain.ids import NodeId, RunId
from gpunion.domain.protocol.effects import CancelTimer, SetTimer
from gpunion.domain.protocol.reports import NodePaused, NoticeGiven
from gpunion.domain.protocol.timers import CoordinatorTimer, LessonDue, ReplanDue, SaveDue
from gpunion.engine.channel import (
    SKEW_MEMORY_S,
    WINDOW,
    Receiver,
    Sender,
    Skew,
    order_in_our_time,
    report_in_our_time,
)
from gpunion.engine.timers import Timers
from tests.builders import a_save_order, a_stop

ALPHA, BETA = NodeId("alpha"), NodeId("beta")


def due(sender: Sender[str], now_s: float) -> list[int]:
    return [seq for seq, _ in sender.due(now_s, 3.0)]


# --- sender and receiver ----------------------------------------------------------------------------


def test_what_is_pushed_is_due_once_until_it_is_time_to_send_it_again() -> None:
    sender: Sender[str] = Sender()
    assert (sender.push("a"), sender.push("b")) == (1, 2)
    assert due(sender, 0.0) == [1, 2]
    assert due(sender, 2.9) == []
    assert due(sender, 3.0) == [1, 2]


def test_what_is_acknowledged_is_not_sent_again() -> None:
    sender: Sender[str] = Sender()
    for item in "abc":
        sender.push(item)
    due(sender, 0.0)
    assert sender.acknowledge(2) == [1, 2]
    assert due(sender, 9.0) == [3]
    assert sender.acknowledge(2) == []


def test_after_a_new_connection_everything_is_due_again() -> None:
    sender: Sender[str] = Sender()
    sender.push("a")
    due(sender, 0.0)
    sender.reconnected()
    assert due(sender, 0.1) == [1]


def test_only_so_much_is_on_the_way_at_a_time() -> None:
    sender: Sender[str] = Sender()
    for _ in range(WINDOW + 5):
        sender.push("x")
    assert due(sender, 0.0) == list(range(1, WINDOW + 1))
    sender.acknowledge(10)
    assert due(sender, 0.1) == list(range(WINDOW + 1, WINDOW + 6))


def test_numbers_go_on_after_a_restart_and_after_forgetting() -> None:
    sender: Sender[str] = Sender()
    sender.restore([(4, "d"), (5, "e")], 3)
    assert due(sender, 0.0) == [4, 5]
    assert sender.push("f") == 6
    sender.forget_all()
    assert sender.waiting == {}
    assert sender.push("g") == 7
    empty: Sender[str] = Sender()
    empty.restore([], 9)
    assert empty.push("a") == 10


def test_a_receiver_takes_each_number_once_and_in_order() -> None:
    receiver = Receiver()
    assert [seq for seq in (2, 1, 3) if receiver.expects(seq)] == [1]
    receiver.took(1)
    assert receiver.expects(2)
    assert not receiver.expects(1)
    receiver.took(0)
    assert receiver.last_seq == 1


# --- skew -------------------------------------------------------------------------------------------


def test_the_least_delay_seen_is_the_best_guess_of_the_skew() -> None:
    skew = Skew()
    assert skew.here(50.0) == 50.0
    skew.learn(now_s=100.0, sent_s=40.0)
    skew.learn(now_s=101.0, sent_s=44.0)
    skew.learn(now_s=102.0, sent_s=41.0)
    assert skew.here(50.0) == 107.0


def test_an_old_guess_is_forgotten_so_that_drift_is_followed() -> None:
    skew = Skew()
    skew.learn(now_s=100.0, sent_s=100.0)
    skew.learn(now_s=100.0 + SKEW_MEMORY_S, sent_s=95.0 + SKEW_MEMORY_S)
    assert skew.offset_s == 0.0
    skew.learn(now_s=101.0 + SKEW_MEMORY_S, sent_s=96.0 + SKEW_MEMORY_S)
    assert skew.offset_s == 5.0


def test_deadlines_are_told_in_the_receiver_s_time_and_nothing_else_is_touched() -> None:
    skew = Skew(offset_s=10.0)
    assert report_in_our_time(NoticeGiven(deadline_s=5.0), skew) == NoticeGiven(deadline_s=15.0)
    assert report_in_our_time(NodePaused(), skew) == NodePaused()
    assert order_in_our_time(a_save_order(by_s=5.0), skew) == a_save_order(by_s=15.0)
    assert order_in_our_time(a_save_order(), skew) == a_save_order()
    assert order_in_our_time(a_stop(), skew) == a_stop()


# --- timers -----------------------------------------------------------------------------------------


EARLY, LATE = (SaveDue(run_id=RunId(name)) for name in ("early", "late"))


def test_the_earliest_moment_is_due_until_it_is_told_to_have_fired() -> None:
    timers: Timers[CoordinatorTimer] = Timers([(LATE, 9.0), (EARLY, 5.0)])
    assert timers.next_s() == 5.0
    assert timers.due(4.9) is None
    assert timers.due(5.0) == timers.due(20.0) == EARLY
    timers.fired(EARLY)
    assert timers.due(20.0) == LATE
    timers.fired(LATE)
    assert (timers.due(20.0), timers.next_s()) == (None, None)


def test_setting_a_timer_again_moves_it_and_cancelling_removes_it() -> None:
    timers: Timers[CoordinatorTimer] = Timers()
    moved = [SetTimer(timer=EARLY, at_s=5.0), SetTimer(timer=EARLY, at_s=9.0)]
    timers.apply([*moved, SetTimer(timer=LATE, at_s=1.0)])
    timers.apply([CancelTimer(timer=LATE), CancelTimer(timer=LessonDue()), "something else"])
    assert timers.items() == ((EARLY, 9.0),)
    assert EARLY in timers
    assert LATE not in timers
    assert (timers.at(EARLY), timers.at(LATE)) == (9.0, None)
    assert timers.due(5.0) is None
    timers.apply([SetTimer(timer=EARLY, at_s=2.0)])
    assert timers.due(2.0) == EARLY


def test_of_timers_that_are_due_at_one_moment_the_first_by_text_fires_first() -> None:
    together: tuple[CoordinatorTimer, ...] = (ReplanDue(), LessonDue(), LATE, EARLY)
    timers: Timers[CoordinatorTimer] = Timers((timer, 5.0) for timer in together)
    fired = []
    while (timer := timers.due(5.0)) is not None:
        fired.append(timer)
        timers.fired(timer)
    assert fired == [EARLY, LATE, LessonDue(), ReplanDue()]
