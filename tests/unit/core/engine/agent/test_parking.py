"""A guest whose GPU is wanted stands still in memory, and goes on when the GPU is lent again."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.guest import Parking
from gpunion.domain.jobs.run import EndReason, RunPhase
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.nodes.withheld import GpuPhase, HoldCause
from gpunion.domain.protocol.effects import KillGuest, LimitGuest, ParkGuest, SetTimer, UnparkGuest
from gpunion.domain.protocol.events import (
    AgentStarted,
    GuestFound,
    GuestNotParked,
    GuestNotUnparked,
    GuestParked,
    GuestStarted,
    GuestUnparked,
    OwnerReclaimed,
    OwnerResumed,
    TimerFired,
)
from gpunion.domain.protocol.orders import TakeCheckpoint
from gpunion.domain.protocol.reports import (
    CheckpointFailed,
    NodeReclaimed,
    NodeResumed,
    NoticeGiven,
    RunNotParked,
    RunParked,
    RunUnparked,
)
from gpunion.domain.protocol.timers import agent_timer
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import GIB
from gpunion.engine.agent.parked import parking
from tests.builders import (
    Headquarters,
    LoneAgent,
    a_running_job,
    a_save_order,
    a_start,
    deeds,
    facts,
    orders,
    reports,
    timers_of,
    whys,
)

RUN = RunId("job-e1")


def a_guest_on_gpu_0(*, parks: bool = True) -> LoneAgent:
    agent = LoneAgent(of=replace(facts(gpus=2), parks=True, terms=Terms(park=parks)))
    agent.ordered(a_start(RUN, gpu=0))
    agent.hears(GuestStarted(run_id=RUN, restored=None, resumed_step=0, restore_s=0.1))
    return agent


def a_parked_guest() -> LoneAgent:
    agent = a_guest_on_gpu_0()
    agent.hears(OwnerReclaimed(notice_s=30, gpus=(0,), cause=HoldCause.OWN_WORK, detail="blender"))
    agent.later(2).hears(GuestParked(run_id=RUN, moved_bytes=10 * GIB, took_s=1.5))
    return agent


def test_the_guest_of_a_wanted_gpu_is_parked_and_the_coordinator_told_so_at_once() -> None:
    agent = a_guest_on_gpu_0()
    decision = agent.hears(OwnerReclaimed(notice_s=30, gpus=(0,)))
    deadline_s = agent.now_s + 30
    assert reports(decision) == [NoticeGiven(deadline_s=deadline_s, gpus=(0,), parking=(RUN,))]
    assert ParkGuest(run_id=RUN, by_s=deadline_s) in decision.effects
    assert (
        SetTimer(timer=agent_timer("deadline:gpu:0"), at_s=deadline_s) in decision.effects
    )  # should it not come about


def test_a_parked_guest_frees_its_gpu_and_has_no_deadline_any_more() -> None:
    agent = a_guest_on_gpu_0()
    agent.hears(OwnerReclaimed(notice_s=30, gpus=(0,)))
    decision = agent.later(2).hears(GuestParked(run_id=RUN, moved_bytes=10 * GIB, took_s=1.5))
    assert [type(report) for report in reports(decision)] == [RunParked, NodeReclaimed]
    assert reports(decision)[1] == NodeReclaimed(freed_after_s=2.0, gpus=(0,))
    limits = [effect for effect in decision.effects if isinstance(effect, LimitGuest)]
    assert [limit.kill_at_s for limit in limits] == [None]
    assert agent.guest().parking is Parking.PARKED
    assert timers_of(decision)["deadline:gpu:0"] is None
    assert timers_of(decision)["park:job-e1"] == agent.now_s + parking.PATIENCE_S


def test_it_goes_on_where_it_stood_when_the_gpu_is_lent_again() -> None:
    agent = a_parked_guest()
    decision = agent.later(60).hears(OwnerResumed(gpus=(0,), cause=HoldCause.OWN_WORK))
    assert UnparkGuest(run_id=RUN) in decision.effects
    assert reports(decision) == [NodeResumed(gpus=(0,))]
    back = agent.later(1).hears(GuestUnparked(run_id=RUN, took_s=0.8))
    assert reports(back) == [
        RunUnparked(run_id=RUN, job_id=agent.guest().job_id, epoch=1, parked_s=61.0, took_s=0.8)
    ]
    assert agent.guest().parking is None


def test_lending_the_whole_machine_again_wakes_it_too() -> None:
    agent = a_guest_on_gpu_0()
    agent.hears(OwnerReclaimed(notice_s=30, gpus=(0,)))
    agent.hears(GuestParked(run_id=RUN, moved_bytes=GIB, took_s=1.0))
    assert UnparkGuest(run_id=RUN) in agent.hears(OwnerResumed()).effects


def test_an_owner_who_changes_their_mind_while_it_is_being_parked_gets_it_back_at_once() -> None:
    agent = a_guest_on_gpu_0()
    agent.hears(OwnerReclaimed(notice_s=30, gpus=(0,)))
    agent.hears(OwnerResumed(gpus=(0,)))
    decision = agent.hears(GuestParked(run_id=RUN, moved_bytes=GIB, took_s=1.0))
    assert UnparkGuest(run_id=RUN) in decision.effects


def test_what_cannot_be_parked_is_saved_and_moved_as_ever() -> None:
    agent = a_guest_on_gpu_0()
    agent.hears(OwnerReclaimed(notice_s=30, gpus=(0,)))
    decision = agent.hears(GuestNotParked(run_id=RUN, detail="it needs 80 GiB of memory"))
    assert isinstance(reports(decision)[0], RunNotParked)
    assert agent.guest().parking is None
    agent.later(30)
    assert deeds(agent.fires("deadline:gpu:0")) == [KillGuest(run_id=RUN, cause=EndReason.DEADLINE)]


def test_the_deadline_does_not_wait_for_a_driver_that_dawdles() -> None:
    agent = a_guest_on_gpu_0()
    agent.hears(OwnerReclaimed(notice_s=30, gpus=(0,)))
    assert deeds(agent.later(30).fires("deadline:gpu:0")) == [KillGuest(run_id=RUN, cause=EndReason.DEADLINE)]
    late = agent.hears(GuestParked(run_id=RUN, moved_bytes=GIB, took_s=31.0))
    assert late.effects == ()


def test_nobody_is_parked_where_the_terms_do_not_allow_it_or_it_would_not_help() -> None:
    unwilling = a_guest_on_gpu_0(parks=False)
    sick, hurried = a_guest_on_gpu_0(), a_guest_on_gpu_0()
    for agent, word in (
        (unwilling, OwnerReclaimed(notice_s=30, gpus=(0,))),
        (sick, OwnerReclaimed(notice_s=30, gpus=(0,), cause=HoldCause.SICK, detail="Xid 79")),
        (hurried, OwnerReclaimed(notice_s=parking.LEAST_NOTICE_S / 2, gpus=(0,))),
    ):
        decision = agent.hears(word)
        assert not any(isinstance(effect, ParkGuest) for effect in decision.effects)


def test_a_save_it_can_no_longer_answer_is_given_up_with_the_reason() -> None:
    agent = a_guest_on_gpu_0()
    agent.ordered(a_save_order(RUN))
    decision = agent.hears(OwnerReclaimed(notice_s=30, gpus=(0,)))
    failed = [report for report in reports(decision) if isinstance(report, CheckpointFailed)]
    assert [report.trouble for report in failed] == [CheckpointTrouble.PARKED]
    asked = agent.ordered(a_save_order(RUN, 2))
    assert [report.trouble for report in reports(asked) if isinstance(report, CheckpointFailed)] == [
        CheckpointTrouble.PARKED
    ]


def test_an_owner_who_goes_on_for_long_does_not_keep_the_job() -> None:
    agent = a_parked_guest()
    decision = agent.later(parking.PATIENCE_S).fires("park:job-e1")
    assert deeds(decision) == [KillGuest(run_id=RUN, cause=EndReason.DEADLINE)]
    assert Why.PARKED_TOO_LONG in whys(decision)


def test_a_guest_that_does_not_get_back_onto_its_gpu_is_ended_with_the_reason() -> None:
    agent = a_parked_guest()
    agent.hears(OwnerResumed(gpus=(0,)))
    decision = agent.hears(GuestNotUnparked(run_id=RUN, detail="the driver gives no reason"))
    assert KillGuest(run_id=RUN, cause=EndReason.GUEST_LOST) in decision.effects
    assert Why.NOT_UNPARKED in whys(decision)


def test_a_restarted_agent_finds_out_what_became_of_a_move_that_was_under_way() -> None:
    for word, effect in (
        (None, ParkGuest),
        (OwnerResumed(gpus=(0,)), UnparkGuest),
    ):
        agent = a_guest_on_gpu_0()
        agent.hears(OwnerReclaimed(notice_s=30, gpus=(0,)))
        if word is not None:
            agent.hears(GuestParked(run_id=RUN, moved_bytes=GIB, took_s=1.0))
            agent.hears(word)
        decision = agent.hears(AgentStarted(found=(GuestFound(run_id=RUN, alive=True),)))
        assert any(isinstance(done, effect) for done in decision.effects)


def test_what_is_heard_of_a_guest_that_is_gone_or_not_being_moved_changes_nothing() -> None:
    agent = a_guest_on_gpu_0()
    gone = RunId("other-e1")
    for event in (
        GuestParked(run_id=gone, moved_bytes=GIB, took_s=1.0),
        GuestNotParked(run_id=RUN, detail="late"),
        GuestUnparked(run_id=RUN, took_s=1.0),
        GuestNotUnparked(run_id=RUN, detail="late"),
    ):
        assert agent.hears(event).effects == ()
    assert agent.hears(TimerFired(timer=agent_timer("park:job-e1"))).effects == ()


def test_a_guest_that_was_told_to_end_is_not_moved_again_after_a_restart() -> None:
    agent = a_guest_on_gpu_0()
    agent.hears(OwnerReclaimed(notice_s=30, gpus=(0,)))
    agent.later(30).fires("deadline:gpu:0")
    decision = agent.hears(AgentStarted(found=(GuestFound(run_id=RUN, alive=True),)))
    assert not any(isinstance(effect, ParkGuest) for effect in decision.effects)


# --- the coordinator ---------------------------------------------------------------------------------


def wanted(hq: Headquarters, *, parks: bool = True) -> list[object]:
    notice = NoticeGiven(deadline_s=hq.now_s + 30, gpus=(0,), parking=(RUN,) if parks else ())
    return [order for _, order in orders(hq.reported("alpha", notice))]


def test_nobody_plans_to_move_a_run_that_is_being_parked() -> None:
    assert wanted(a_running_job()) == []
    assert [type(order) for order in wanted(a_running_job(), parks=False)] == [TakeCheckpoint]


def test_the_story_says_that_it_was_parked_and_that_nothing_was_lost() -> None:
    hq = a_running_job()
    wanted(hq)
    job = hq.run().job_id
    parked = hq.reported(
        "alpha", RunParked(run_id=RUN, job_id=job, epoch=1, moved_bytes=10 * GIB, took_s=1.5)
    )
    assert whys(parked, job) == [Why.PARKED]
    assert hq.run().parked_s == hq.now_s
    hq.reported("alpha", NodeReclaimed(freed_after_s=2.0, gpus=(0,)))
    assert hq.node().withheld[0].phase is GpuPhase.RECLAIMED
    hq.later(60).reported("alpha", NodeResumed(gpus=(0,)))
    back = hq.reported("alpha", RunUnparked(run_id=RUN, job_id=job, epoch=1, parked_s=61.0, took_s=0.8))
    assert whys(back, job) == [Why.UNPARKED]
    assert "checkpoint:job-e1" in timers_of(back)
    assert (hq.run().parking, hq.run().phase, hq.job().migrations) == (False, RunPhase.RUNNING, 0)


def test_a_run_that_could_not_be_parked_is_saved_in_the_same_breath() -> None:
    hq = a_running_job()
    wanted(hq)
    report = RunNotParked(run_id=RUN, job_id=hq.run().job_id, epoch=1, detail="it needs 80 GiB of memory")
    decision = hq.reported("alpha", report)
    assert Why.NOT_PARKED in whys(decision)
    assert [type(order) for _, order in orders(decision)] == [TakeCheckpoint]


def test_a_parked_run_that_had_to_end_goes_on_elsewhere() -> None:
    hq = a_running_job()
    wanted(hq)
    job = hq.run().job_id
    hq.reported("alpha", RunParked(run_id=RUN, job_id=job, epoch=1, moved_bytes=GIB, took_s=1.5))
    hq.joins("beta")
    assert Why.PARKED_TOO_LONG in whys(hq.later(900).ended(RUN, EndReason.DEADLINE))
    assert hq.job().epoch == 2
    assert hq.run("job-e2").node_id == "beta"


def test_late_words_of_parking_change_nothing() -> None:
    hq = a_running_job()
    job = hq.run().job_id
    hq.ended(RUN, EndReason.DEADLINE)
    for report in (
        RunParked(run_id=RUN, job_id=job, epoch=1, moved_bytes=GIB, took_s=1.0),
        RunNotParked(run_id=RUN, job_id=job, epoch=1, detail="late"),
        RunUnparked(run_id=RUN, job_id=job, epoch=1, parked_s=1.0, took_s=1.0),
        NoticeGiven(deadline_s=hq.now_s + 30, gpus=(0,), parking=(RUN,)),
    ):
        hq.reported("alpha", report)
        assert (hq.run().parking, hq.run().parked_s) == (False, None)


def test_a_guest_on_a_slice_of_a_card_is_not_parked() -> None:
    """No driver moves the memory of a slice."""
    lent = facts(gpus=2)
    slices = tuple(replace(gpu, card="GPU-a", profile="1g.10gb") for gpu in lent.capacity.gpus)
    capacity = replace(lent.capacity, gpus=slices)
    agent = LoneAgent(of=replace(lent, parks=True, terms=Terms(park=True), capacity=capacity))
    agent.ordered(a_start(RUN, gpu=0))
    agent.hears(GuestStarted(run_id=RUN, restored=None, resumed_step=0, restore_s=0.1))
    decision = agent.hears(OwnerReclaimed(notice_s=30, gpus=(0,)))
    assert not [effect for effect in decision.effects if isinstance(effect, ParkGuest)]
