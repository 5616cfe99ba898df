"""A node may say a lot at once, and little for ever."""

from __future__ import annotations

from gpunion.coordinator.loop.pace import HELLO_COSTS, KEPT, OF_ISOLATED, PASSING, TOO_LONG_S, Pace, Wait
from gpunion.domain.ids import NodeId
from gpunion.domain.protocol.frames import GpuReadings, Heartbeat, Hello, ReportFrame
from gpunion.domain.protocol.reports import NodeResumed
from tests.builders.values import a_node

ONE, OTHER = NodeId("one"), NodeId("other")
REPORT = ReportFrame(seq=1, ack=0, sent_s=0.0, report=NodeResumed())
BEAT = Heartbeat(sent_s=0.0, ack=0)
HELLO = Hello(node_id=ONE, incarnation="i", facts=a_node().facts, guests=(), ack=0, sent_s=0.0)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def said(pace: Pace, clock: Clock, times: int, isolated: bool = False) -> list[Wait]:
    """As who says it has to: one after the other."""
    waits = []
    for _ in range(times):
        wait = pace.of(ONE, REPORT, isolated=isolated)
        clock.now_s += wait.wait_s
        waits.append(wait)
    return waits


def test_a_thousand_reports_at_once_are_heard_at_once() -> None:
    assert {wait.wait_s for wait in said(Pace(Clock()), Clock(), int(KEPT.at_once))} == {0.0}


def test_a_flood_of_reports_is_kept_to_a_few_a_second_on_whatever_connection() -> None:
    clock = Clock()
    pace = Pace(clock)
    said(pace, clock, int(KEPT.at_once) + 1000)
    assert clock.now_s * KEPT.per_s >= 999


def test_a_flood_of_one_node_makes_no_other_wait_nor_its_own_beats() -> None:
    clock = Clock()
    pace = Pace(clock)
    said(pace, clock, int(KEPT.at_once) + 10)
    assert pace.of(OTHER, REPORT, isolated=False).wait_s == 0.0
    assert pace.of(ONE, BEAT, isolated=False).wait_s == 0.0


def test_a_flood_that_does_not_end_is_told_of_once_in_a_while_and_a_burst_is_not() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert not any(wait.too_long for wait in said(pace, clock, int(KEPT.at_once) + 100))
    clock.now_s += 10 * KEPT.at_once
    assert not any(wait.too_long for wait in said(pace, clock, int(KEPT.at_once)))
    told = [wait for wait in said(pace, clock, int(2.5 * TOO_LONG_S * KEPT.per_s)) if wait.too_long]
    assert len(told) == 2


def test_who_is_isolated_for_it_says_hardly_anything_more() -> None:
    clock = Clock()
    pace = Pace(clock)
    said(pace, clock, int(KEPT.at_once))
    began_s = clock.now_s
    waits = said(pace, clock, 10, isolated=True)
    assert clock.now_s - began_s >= 9 / OF_ISOLATED.per_s
    assert not any(wait.too_long for wait in waits)


def test_hellos_count_more_and_connecting_anew_begins_nothing_anew() -> None:
    clock = Clock()
    pace = Pace(clock)
    for _ in range(int(KEPT.at_once / HELLO_COSTS)):
        assert pace.of(ONE, HELLO, isolated=False).wait_s == 0.0
    assert pace.of(ONE, HELLO, isolated=False).wait_s > 0.0


def test_readings_and_beats_have_a_pace_too() -> None:
    clock = Clock()
    pace = Pace(clock)
    for _ in range(int(PASSING.at_once)):
        assert pace.of(ONE, GpuReadings(gpus=()), isolated=False).wait_s == 0.0
    assert pace.of(ONE, BEAT, isolated=False).wait_s > 0.0
