"""A guest is parked for a job of a higher class: off its GPU first, back onto it when that is free."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.ids import JobId, RunId
from gpunion.domain.jobs.guest import Parking
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.jobs.window import Subjob, WindowEnd
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.nodes.withheld import HoldCause
from gpunion.domain.protocol.decision import AgentDecision
from gpunion.domain.protocol.effects import (
    DumpParked,
    KillGuest,
    LimitGuest,
    ParkGuest,
    SetTimer,
    StartGuest,
    TellWindow,
    UnparkGuest,
)
from gpunion.domain.protocol.events import (
    AgentStarted,
    GuestExited,
    GuestFound,
    GuestNotDumped,
    GuestNotParked,
    GuestParked,
    GuestSaved,
    GuestStarted,
    GuestUnparked,
    OwnerPaused,
    OwnerReclaimed,
    OwnerResumed,
    TimerFired,
)
from gpunion.domain.protocol.orders import ParkRun, UnparkRun
from gpunion.domain.protocol.reports import CheckpointFailed, RunEnded, RunNotParked, RunParked, RunUnparked
from gpunion.domain.protocol.timers import WindowEnds, agent_timer
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import GIB
from gpunion.domain.system_tier import SystemAbility, Tier
from gpunion.engine.agent.parked.for_a_job import HANGS_S, LIMIT_S
from tests.builders import LoneAgent, a_save_order, a_start, facts, reports

RUN, URGENT = RunId("job-e1"), RunId("urgent-e1")
PARK = ParkRun(run_id=RUN, job_id=JobId("job"), epoch=1, room_for=JobId("urgent"))
BACK = UnparkRun(run_id=RUN, job_id=JobId("job"), epoch=1)


def an_agent(*, parks: bool = True, dumps: bool = False, **start: object) -> LoneAgent:
    of = replace(facts(gpus=2), parks=parks, terms=Terms(park=True))
    if dumps:
        of = replace(of, system=SystemAbility(able=True, why_not="", kind="x"))
    agent = LoneAgent(of=of)
    agent.ordered(replace(a_start(RUN, gpu=0), whole=dumps, **start))  # type: ignore[arg-type]
    agent.hears(GuestStarted(run_id=RUN, restored=None, resumed_step=0, restore_s=0.1))
    return agent


def a_parked_guest(*, dumps: bool = False) -> LoneAgent:
    agent = an_agent(dumps=dumps)
    agent.ordered(PARK)
    agent.later(2).hears(GuestParked(run_id=RUN, moved_bytes=10 * GIB, took_s=2.0))
    return agent


def refused(decision: AgentDecision) -> str:
    (report,) = [one for one in reports(decision) if isinstance(one, RunNotParked)]
    return report.detail


def starts(decision: AgentDecision) -> list[RunId]:
    return [effect.order.run_id for effect in decision.effects if isinstance(effect, StartGuest)]


def test_it_is_off_its_gpu_before_anybody_else_may_have_it() -> None:
    agent = an_agent()
    decision = agent.ordered(PARK)
    assert ParkGuest(run_id=RUN, by_s=agent.now_s + LIMIT_S) in decision.effects
    early = agent.ordered(a_start(URGENT, gpu=0))
    assert [(type(one), one.why) for one in reports(early)] == [(RunEnded, Why.GPU_BUSY)]  # type: ignore[union-attr]
    decision = agent.later(2).hears(GuestParked(run_id=RUN, moved_bytes=10 * GIB, took_s=2.0))
    assert [type(one) for one in reports(decision)] == [RunParked]
    assert starts(agent.ordered(a_start(RunId("urgent-e2"), gpu=0))) == ["urgent-e2"]


def test_it_goes_on_when_it_is_told_to_and_not_before() -> None:
    agent = a_parked_guest()
    agent.ordered(a_start(URGENT, gpu=0))
    agent.hears(GuestStarted(run_id=URGENT, restored=None, resumed_step=0, restore_s=0.1))
    decision = agent.later(60).hears(GuestExited(run_id=URGENT, exit_code=1, last_step=0))
    assert UnparkGuest(run_id=RUN) not in decision.effects
    assert UnparkGuest(run_id=RUN) in agent.ordered(BACK).effects
    (report,) = reports(agent.later(1).hears(GuestUnparked(run_id=RUN, took_s=0.8)))
    assert isinstance(report, RunUnparked)
    assert report.parked_s == 61.0
    assert (agent.guest().parking, agent.guest().room_for) == (None, None)


def limits(decision: AgentDecision) -> list[float | None]:
    return [effect.kill_at_s for effect in decision.effects if isinstance(effect, LimitGuest)]


def a_window(ends_s: float, *, hard: bool = True) -> Subjob:
    return Subjob(ends_s=ends_s, hard=hard, end=WindowEnd.PROMISED if hard else WindowEnd.TURN, save_s=5.0)


def test_a_hard_end_says_nothing_to_one_that_stands_still_and_counts_again_after() -> None:
    start_s = LoneAgent().now_s
    agent = an_agent(subjob=a_window(start_s + 300.0))
    agent.ordered(PARK)
    parked = agent.later(2).hears(GuestParked(run_id=RUN, moved_bytes=10 * GIB, took_s=2.0))
    assert limits(parked) == [None]
    back = agent.later(10).ordered(BACK)
    assert limits(back) == [start_s + 300.0]
    again = agent.later(1).hears(GuestUnparked(run_id=RUN, took_s=1.0))
    assert limits(again) == [start_s + 300.0]
    assert [effect.subjob.ends_s for effect in again.effects if isinstance(effect, TellWindow)] == [
        start_s + 300.0
    ]


@pytest.mark.parametrize("hard", [True, False])
def test_an_end_that_passed_while_it_stood_still_ends_nothing(hard: bool) -> None:
    agent = an_agent(subjob=a_window(LoneAgent().now_s + 30.0, hard=hard))
    agent.ordered(PARK)
    agent.later(2).hears(GuestParked(run_id=RUN, moved_bytes=10 * GIB, took_s=2.0))
    assert limits(agent.later(100).ordered(BACK)) == []
    again = agent.later(1).hears(GuestUnparked(run_id=RUN, took_s=1.0))
    assert limits(again) == [None]
    assert agent.guest(RUN).subjob == Subjob(ends_s=None, hard=False, end=WindowEnd.OPEN, save_s=5.0)


def test_one_that_could_not_be_parked_is_asked_again_to_save_itself_before_its_window_ends() -> None:
    ends_s = LoneAgent().now_s + 30.0
    agent = an_agent(subjob=a_window(ends_s))
    agent.ordered(PARK)
    agent.now_s = ends_s - 5.0
    agent.hears(TimerFired(timer=WindowEnds(run_id=RUN)))  # nobody to ask
    decision = agent.hears(GuestNotParked(run_id=RUN, detail="no"))
    assert SetTimer(timer=WindowEnds(run_id=RUN), at_s=agent.now_s) in decision.effects


def test_told_to_go_on_while_another_is_on_its_gpu_it_waits_for_that() -> None:
    """Nobody should tell it to; two programs on one GPU is what must not be."""
    agent = a_parked_guest()
    agent.ordered(a_start(URGENT, gpu=0))
    agent.hears(GuestStarted(run_id=URGENT, restored=None, resumed_step=0, restore_s=0.1))
    assert UnparkGuest(run_id=RUN) not in agent.ordered(BACK).effects
    decision = agent.hears(GuestExited(run_id=URGENT, exit_code=None, last_step=0))
    assert UnparkGuest(run_id=RUN) in decision.effects


def test_it_says_why_it_is_not_parked() -> None:
    assert "driver" in refused(an_agent(parks=False).ordered(PARK))
    forbidden = an_agent()
    forbidden.engine.facts = replace(forbidden.engine.facts, terms=Terms())
    assert "gives no memory" in refused(forbidden.ordered(PARK))
    leaving = an_agent()
    leaving.ordered(a_save_order(final=True))
    assert "leaves already" in refused(leaving.ordered(PARK))
    wanted = an_agent()
    wanted.hears(OwnerPaused(gpus=(0,)))
    assert "its owner has a GPU" in refused(wanted.ordered(PARK))
    paused = an_agent()
    paused.hears(OwnerPaused())
    assert "not lent" in refused(paused.ordered(PARK))
    gone = an_agent()
    gone.hears(GuestExited(run_id=RUN, exit_code=0, last_step=9))
    assert "does not run" in refused(gone.ordered(PARK))
    assert "does not run" in refused(LoneAgent().ordered(PARK))


def test_a_driver_that_refuses_leaves_it_computing() -> None:
    agent = an_agent()
    agent.ordered(PARK)
    decision = agent.hears(GuestNotParked(run_id=RUN, detail="cuCheckpointProcessLock failed"))
    assert refused(decision) == "cuCheckpointProcessLock failed"
    assert (agent.guest().parking, agent.guest().room_for) == (None, None)


def test_one_that_hangs_on_its_way_is_called_off_and_a_late_word_changes_nothing() -> None:
    agent = an_agent()
    agent.ordered(PARK)
    agent.later(LIMIT_S + HANGS_S)
    decision = agent.hears(TimerFired(timer=agent_timer("park:job-e1")))
    assert refused(decision) == "it took too long"
    assert UnparkGuest(run_id=RUN) in decision.effects
    assert reports(agent.hears(GuestParked(run_id=RUN, moved_bytes=GIB, took_s=70.0))) == []
    agent.hears(GuestUnparked(run_id=RUN, took_s=1.0))
    assert agent.guest().parking is None


def test_its_owner_takes_the_gpu_on_the_way_and_it_waits_in_memory_for_the_job_all_the_same() -> None:
    agent = an_agent()
    agent.ordered(PARK)
    agent.hears(OwnerReclaimed(notice_s=30, gpus=(0,), cause=HoldCause.OWN_WORK))
    decision = agent.hears(GuestParked(run_id=RUN, moved_bytes=GIB, took_s=1.0))
    assert {type(one).__name__ for one in reports(decision)} == {"RunParked", "NodeReclaimed"}
    assert UnparkGuest(run_id=RUN) not in agent.hears(OwnerResumed(gpus=(0,))).effects
    assert UnparkGuest(run_id=RUN) in agent.ordered(BACK).effects


def test_told_to_go_on_while_its_owner_has_the_gpu_it_waits_for_them() -> None:
    agent = a_parked_guest()
    agent.hears(OwnerReclaimed(notice_s=30, gpus=(0,), cause=HoldCause.OWN_WORK))
    assert UnparkGuest(run_id=RUN) not in agent.ordered(BACK).effects
    decision = agent.hears(OwnerResumed(gpus=(0,), cause=HoldCause.OWN_WORK))
    assert UnparkGuest(run_id=RUN) in decision.effects


def test_its_owner_wants_the_whole_machine_and_it_is_dumped_as_it_stands() -> None:
    agent = a_parked_guest(dumps=True)
    decision = agent.hears(OwnerReclaimed(notice_s=30))
    assert [type(effect) for effect in decision.effects if isinstance(effect, DumpParked)] == [DumpParked]


def test_or_is_ended_with_the_machine() -> None:
    agent = a_parked_guest()
    decision = agent.hears(OwnerReclaimed(notice_s=0))
    assert KillGuest(run_id=RUN, cause=EndReason.DEADLINE) in decision.effects


def test_it_is_dumped_when_it_is_told_to_go_elsewhere_and_stands_still_on_where_that_fails() -> None:
    agent = a_parked_guest(dumps=True)
    order = replace(a_save_order(final=True), whole=True)
    decision = agent.ordered(order)
    (dump,) = [effect for effect in decision.effects if isinstance(effect, DumpParked)]
    failed = GuestNotDumped(run_id=RUN, checkpoint_id=dump.checkpoint_id, why="the disk is full")
    (report,) = reports(agent.hears(failed))
    assert isinstance(report, CheckpointFailed)
    assert report.detail == "the disk is full"
    assert agent.guest().gave_place
    (dump,) = [
        effect
        for effect in agent.ordered(a_save_order(number=2, final=True, whole=True)).effects
        if isinstance(effect, DumpParked)
    ]
    saved = GuestSaved(
        run_id=RUN,
        checkpoint_id=dump.checkpoint_id,
        step=5,
        progress=0.5,
        stall_s=0.0,
        tier=Tier.SYSTEM,
    )
    assert KillGuest(run_id=RUN, cause=EndReason.SAVED) in agent.hears(saved).effects


def test_one_that_no_other_machine_could_bring_back_is_not_dumped() -> None:
    agent = a_parked_guest()
    (report,) = reports(agent.ordered(replace(a_save_order(final=True), whole=True)))
    assert isinstance(report, CheckpointFailed)
    assert agent.guest().gave_place


@pytest.mark.parametrize("parked", [False, True])
def test_an_agent_that_is_started_again_goes_on_with_it(parked: bool) -> None:
    agent = a_parked_guest() if parked else an_agent()
    if not parked:
        agent.ordered(PARK)
    by_s = agent.guest().park_by_s
    decision = agent.later(3).hears(AgentStarted(found=(GuestFound(run_id=RUN, alive=True),)))
    asked = [effect for effect in decision.effects if isinstance(effect, (ParkGuest, UnparkGuest))]
    assert asked == ([] if parked else [ParkGuest(run_id=RUN, by_s=by_s)])
    assert agent.guest().room_for == "urgent"
    assert agent.guest().parking is (Parking.PARKED if parked else Parking.PARKING)


def test_who_gave_its_place_keeps_its_memory_and_not_its_cpus() -> None:
    agent = a_parked_guest()
    start = a_start(URGENT, gpu=0)
    wide = replace(start, grant=replace(start.grant, cpus=agent.engine.facts.capacity.cpus))
    assert starts(agent.ordered(wide)) == [URGENT]
    other = a_parked_guest()
    start = a_start(URGENT, gpu=0)
    large = replace(start, grant=replace(start.grant, memory_bytes=other.engine.facts.capacity.memory_bytes))
    (report,) = reports(other.ordered(large))
    assert isinstance(report, RunEnded)
    assert report.why is Why.BEYOND_MACHINE
