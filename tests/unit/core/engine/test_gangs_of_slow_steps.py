"""Members of a gang save when they come to the same step, which takes long where a step does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.ids import RunId
from gpunion.domain.jobs.gang import Seat
from gpunion.domain.protocol.events import GuestStarted
from gpunion.domain.protocol.orders import TakeCheckpoint
from gpunion.domain.protocol.reports import NoticeGiven
from gpunion.policy.gangs.agreeing import Reached, save_step, save_wait_s
from tests.builders import Headquarters, LoneAgent, a_save_order, a_start, facts, orders, timers_of
from tests.builders.gangs import RUNS, a_gang_spec

STEP_S = 150.0


def a_slow_gang() -> Headquarters:
    """At step 100, each of which took its time."""
    headquarters = Headquarters()
    for node in ("alpha", "beta"):
        headquarters.joins(node)
    headquarters.submits("job", a_gang_spec())
    for run in RUNS:
        headquarters.started(run)
    headquarters.later(100 * STEP_S)
    for run in RUNS:
        headquarters.engine.note_progress(headquarters.run(run).id, 100, 0.1)
    return headquarters


def test_a_long_step_is_waited_for_once_and_short_ones_are_not_told_apart_from_late_words() -> None:
    slow, quick, unknown = (Reached(step=100, steps_per_s=pace) for pace in (1 / 30, 10.0, 0.0))
    assert save_step([slow, slow], 2.0) == 101
    assert save_wait_s([slow, slow], 2.0) == pytest.approx(30.0)
    assert save_step([quick, quick], 2.0) == 141
    assert save_wait_s([quick, quick], 2.0) == pytest.approx(4.1)
    assert save_wait_s([unknown, unknown], 2.0) == 4.0
    behind = replace(slow, step=98)
    assert save_wait_s([slow, behind], 2.0) == pytest.approx(90.0)


@pytest.mark.parametrize(("notice_s", "saved"), [(2 * STEP_S, True), (STEP_S, False)])
def test_a_notice_is_long_enough_only_where_the_step_ends_within_it(notice_s: float, saved: bool) -> None:
    headquarters = a_slow_gang()
    notice = NoticeGiven(deadline_s=headquarters.now_s + notice_s)
    decision = headquarters.reported("alpha", notice)
    asked = [one for _, one in orders(decision) if isinstance(one, TakeCheckpoint)]
    assert [(one.run_id, one.at_step) for one in asked] == ([(run, 101) for run in RUNS] if saved else [])


def test_a_members_agent_waits_for_the_step_longer_than_for_another_programs_answer() -> None:
    headquarters = a_slow_gang()
    asked = [one for _, one in orders(headquarters.fires("checkpoint:job-e1"))]
    waits_s = [one.by_s - headquarters.now_s for one in asked if isinstance(one, TakeCheckpoint) and one.by_s]
    timeout_s = headquarters.engine.timing.save_timeout_s
    assert waits_s == [pytest.approx(STEP_S + timeout_s, rel=0.01)] * 2
    agent = LoneAgent(of=facts())
    agent.ordered(a_start(seat=Seat(size=2)))
    agent.hears(GuestStarted(run_id=RunId("job-e1"), restored=None, resumed_step=0, restore_s=0.1))
    decision = agent.ordered(a_save_order(at_step=101, by_s=agent.now_s + waits_s[0]))
    assert timers_of(decision)["save:job-e1"] == pytest.approx(agent.now_s + waits_s[0])
