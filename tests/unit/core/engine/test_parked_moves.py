"""A parked guest that has to give up its place is taken as it stands; what cannot be is as it was before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpunion.domain.ids import CheckpointId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.guest import GuestPhase, Parking
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.nodes.withheld import HoldCause
from gpunion.domain.protocol.decision import Decision
from gpunion.domain.protocol.effects import DumpParked, KillGuest, ShipCheckpoint, TerminateGuest, UnparkGuest
from gpunion.domain.protocol.events import (
    AgentStarted,
    GuestFound,
    GuestNotDumped,
    GuestOverstepped,
    GuestParked,
    GuestSaved,
    GuestStarted,
    OwnerKilled,
    OwnerReclaimed,
    OwnerResumed,
)
from gpunion.domain.protocol.orders import StartRun
from gpunion.domain.protocol.reports import (
    CheckpointCaptured,
    CheckpointFailed,
    NodePaused,
    NodeReclaimed,
    NoticeGiven,
    RunParked,
    RunStarted,
)
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import GIB, Gpu
from gpunion.domain.system_tier import SystemAbility, Tier
from gpunion.engine.agent.parked import parking
from gpunion.engine.coordinator.runs.whole_guests import DUMP_PATIENCE_S
from tests.builders import (
    Headquarters,
    LoneAgent,
    a_save_order,
    a_spec,
    a_start,
    deeds,
    facts,
    orders,
    reports,
    some_gpus,
    timers_of,
    whys,
)

RUN, OWN = RunId("job-e1"), CheckpointId("job-e1-a1")
DUMPS = SystemAbility(able=True, why_not="", kind="x86_64/criu-4.2")


def able(**changes: object) -> NodeFacts:
    usual: dict[str, Any] = {"parks": True, "terms": Terms(park=True), "system": DUMPS}
    return replace(facts(gpus=2), **(usual | changes))


def a_parked_guest(*, of: NodeFacts | None = None, whole: bool = True) -> LoneAgent:
    agent = LoneAgent(of=of or able())
    agent.ordered(a_start(RUN, gpu=0, whole=whole))
    agent.hears(GuestStarted(run_id=RUN, restored=None, resumed_step=0, restore_s=0.1))
    agent.hears(OwnerReclaimed(notice_s=30, gpus=(0,)))
    agent.later(2).hears(GuestParked(run_id=RUN, moved_bytes=10 * GIB, took_s=1.5))
    return agent


def dumped(step: int = 40) -> GuestSaved:
    return GuestSaved(
        run_id=RUN, checkpoint_id=OWN, step=step, progress=0.4, stall_s=0.0, tier=Tier.SYSTEM,
        size_bytes=12 * GIB,
    )  # fmt: skip


def not_dumped() -> GuestNotDumped:
    return GuestNotDumped(run_id=RUN, checkpoint_id=OWN, why="a socket is open")


def test_one_whose_owner_goes_on_for_long_is_taken_as_it_stands_and_ended_with_all_it_did() -> None:
    agent = a_parked_guest()
    decision = agent.later(parking.PATIENCE_S).fires("park:job-e1")
    by_s = agent.now_s + parking.MOVE_LIMIT_S
    assert deeds(decision) == [DumpParked(run_id=RUN, checkpoint_id=OWN, by_s=by_s)]
    assert whys(decision) == [Why.PARKED_MOVES]
    decision = agent.later(20).hears(dumped())
    ship = ShipCheckpoint(
        run_id=RUN, checkpoint_id=OWN, step=40, progress=0.4, rate_bps=0.0, tier=Tier.SYSTEM
    )
    assert deeds(decision) == [ship, KillGuest(run_id=RUN, cause=EndReason.SAVED)]
    (captured,) = reports(decision)
    assert isinstance(captured, CheckpointCaptured)
    assert (captured.step, captured.tier, captured.size_bytes) == (40, Tier.SYSTEM, 12 * GIB)


@pytest.mark.parametrize(
    "agent", [a_parked_guest(whole=False), a_parked_guest(of=able(system=SystemAbility()))]
)
def test_where_it_cannot_be_dumped_or_nobody_could_take_it_it_loses_its_place(
    agent: LoneAgent,
) -> None:
    decision = agent.later(parking.PATIENCE_S).fires("park:job-e1")
    assert deeds(decision) == [KillGuest(run_id=RUN, cause=EndReason.DEADLINE)]
    assert whys(decision) == [Why.PARKED_TOO_LONG]


def test_what_could_not_be_dumped_loses_its_place_and_the_reason_is_told() -> None:
    agent = a_parked_guest()
    agent.later(parking.PATIENCE_S).fires("park:job-e1")
    decision = agent.later(5).hears(not_dumped())
    assert deeds(decision) == [KillGuest(run_id=RUN, cause=EndReason.DEADLINE)]
    (failed,) = reports(decision)
    assert isinstance(failed, CheckpointFailed)
    assert (failed.trouble, failed.detail) == (CheckpointTrouble.PARKED, "a socket is open")
    assert Why.PARKED_TOO_LONG in whys(decision)


def test_hands_that_never_answer_do_not_keep_it() -> None:
    agent = a_parked_guest()
    decision = agent.later(parking.PATIENCE_S).fires("park:job-e1")
    assert timers_of(decision)["park:job-e1"] == agent.now_s + parking.MOVE_LIMIT_S
    decision = agent.later(parking.MOVE_LIMIT_S).fires("park:job-e1")
    assert deeds(decision) == [KillGuest(run_id=RUN, cause=EndReason.DEADLINE)]
    assert agent.hears(dumped()).effects == ()  # too late


def test_an_owner_who_wants_the_whole_machine_has_it_dumped_within_the_notice() -> None:
    agent = a_parked_guest()
    decision = agent.hears(OwnerReclaimed(notice_s=60))
    assert DumpParked(run_id=RUN, checkpoint_id=OWN, by_s=agent.now_s + 60) in decision.effects
    # A signal would wait for it in the dump, and end it where it is brought back.
    assert TerminateGuest(run_id=RUN) not in agent.later(55).fires("term").effects
    assert KillGuest(run_id=RUN, cause=EndReason.SAVED) in agent.hears(dumped()).effects


def test_one_that_cannot_be_dumped_within_the_notice_is_ended_at_its_deadline_and_not_before() -> None:
    agent = a_parked_guest()
    agent.hears(OwnerReclaimed(notice_s=60))
    decision = agent.later(30).hears(not_dumped())
    assert deeds(decision) == []
    assert agent.guest().parking is Parking.PARKED
    decision = agent.later(30).fires("deadline")
    assert deeds(decision) == [KillGuest(run_id=RUN, cause=EndReason.DEADLINE)]


def test_terms_that_let_it_stay_no_longer_have_it_dumped_too() -> None:
    agent = a_parked_guest()
    decision = agent.hears(GuestOverstepped(run_id=RUN, detail="too hot"))
    by_s = agent.now_s + able().terms.notice_s
    assert DumpParked(run_id=RUN, checkpoint_id=OWN, by_s=by_s) in decision.effects


def test_one_that_was_still_being_parked_when_the_machine_was_wanted_is_dumped_once_it_stands() -> None:
    agent = LoneAgent(of=able())
    agent.ordered(a_start(RUN, gpu=0, whole=True))
    agent.hears(GuestStarted(run_id=RUN, restored=None, resumed_step=0, restore_s=0.1))
    agent.hears(OwnerReclaimed(notice_s=30, gpus=(0,)))
    assert not any(isinstance(e, DumpParked) for e in agent.hears(OwnerReclaimed(notice_s=60)).effects)
    decision = agent.hears(GuestParked(run_id=RUN, moved_bytes=GIB, took_s=1.0))
    assert DumpParked(run_id=RUN, checkpoint_id=OWN, by_s=agent.now_s + 60) in decision.effects


def test_an_owner_who_is_done_meanwhile_gets_it_back_if_the_dump_fails() -> None:
    agent = a_parked_guest()
    agent.later(parking.PATIENCE_S).fires("park:job-e1")
    resumed = agent.hears(OwnerResumed(gpus=(0,)))
    assert UnparkGuest(run_id=RUN) not in resumed.effects  # two cannot do something to it at once
    assert deeds(agent.hears(not_dumped())) == [UnparkGuest(run_id=RUN)]


def test_what_was_computed_on_a_gpu_that_turned_out_sick_is_not_dumped() -> None:
    agent = a_parked_guest()
    agent.hears(OwnerReclaimed(notice_s=30, gpus=(0,), cause=HoldCause.SICK, detail="Xid 79"))
    decision = agent.later(parking.PATIENCE_S).fires("park:job-e1")
    assert deeds(decision) == [KillGuest(run_id=RUN, cause=EndReason.DEADLINE)]


def test_kill_waits_for_no_dump() -> None:
    agent = a_parked_guest()
    agent.hears(OwnerReclaimed(notice_s=60))
    assert KillGuest(run_id=RUN, cause=EndReason.KILLED_BY_OWNER) in agent.hears(OwnerKilled()).effects
    assert agent.hears(dumped()).effects == ()


def test_a_save_that_is_on_its_way_is_not_given_up_for_a_dump_that_may_fail() -> None:
    agent = LoneAgent(of=able())
    agent.ordered(a_start(RUN, gpu=0, whole=True))
    agent.hears(GuestStarted(run_id=RUN, restored=None, resumed_step=0, restore_s=0.1))
    agent.ordered(a_save_order(RUN))
    agent.saves()
    agent.hears(OwnerReclaimed(notice_s=30, gpus=(0,)))
    agent.hears(GuestParked(run_id=RUN, moved_bytes=GIB, took_s=1.0))
    decision = agent.later(parking.PATIENCE_S).fires("park:job-e1")
    assert deeds(decision) == [KillGuest(run_id=RUN, cause=EndReason.DEADLINE)]


def test_whether_another_machine_could_take_it_is_what_was_said_last() -> None:
    agent = LoneAgent(of=able())
    agent.ordered(a_start(RUN, gpu=0))
    agent.hears(GuestStarted(run_id=RUN, restored=None, resumed_step=0, restore_s=0.1))
    for number, whole in enumerate((True, False), start=1):
        agent.ordered(a_save_order(RUN, number, whole=whole))
        assert agent.guest().whole is whole
        agent.saves(f"job-e1-c{number}")
        agent.ships(f"job-e1-c{number}")


def test_a_restarted_agent_has_it_dumped_again_and_not_asked() -> None:
    agent = a_parked_guest()
    agent.later(parking.PATIENCE_S).fires("park:job-e1")
    decision = agent.hears(AgentStarted(found=(GuestFound(run_id=RUN, alive=True),)))
    by_s = agent.now_s + parking.MOVE_LIMIT_S
    assert deeds(decision) == [DumpParked(run_id=RUN, checkpoint_id=OWN, by_s=by_s)]
    assert agent.guest().phase is GuestPhase.RUNNING


# --- the coordinator ---------------------------------------------------------------------------------


def a_campus(**nodes: NodeFacts) -> tuple[Headquarters, StartRun]:
    """The first of them has the job."""
    hq = Headquarters()
    (first, of), *others = nodes.items()
    for node, there in [*others, (first, replace(of, capacity=replace(of.capacity, gpus=_fast(of))))]:
        hq.joins(node, there)
    (order,) = (order for _, order in orders(hq.submits("job", a_spec(gpus=1))))
    hq.later(1.0).started(RUN)
    assert hq.run().node_id == first
    assert isinstance(order, StartRun)
    return hq, order


def _fast(of: NodeFacts) -> tuple[Gpu, ...]:
    return tuple(replace(gpu, speed=9.0, declared=False) for gpu in of.capacity.gpus)


def other_card() -> NodeFacts:
    return able(capacity=replace(able().capacity, gpus=some_gpus(2, model="other")))


@pytest.mark.parametrize(
    ("others", "whole"),
    [
        ({"beta": able()}, True),
        ({}, False),  # nobody could bring it back
        ({"beta": facts()}, False),
        ({"beta": other_card()}, False),
        ({"beta": able(system=replace(DUMPS, kind="aarch64/criu-4.2"))}, False),
    ],
)
def test_it_may_be_dumped_where_it_stands_if_another_machine_could_bring_it_back(
    others: dict[str, NodeFacts], whole: bool
) -> None:
    _, order = a_campus(alpha=able(), **others)
    assert (order.whole, order.tier) == (whole, Tier.APP)


def taken_as_it_stood(hq: Headquarters) -> Decision:
    run = hq.run()
    hq.reported(run.node_id, NoticeGiven(deadline_s=hq.now_s + 30, gpus=(0,), parking=(RUN,)))
    hq.reported(run.node_id, RunParked(run_id=RUN, job_id=run.job_id, epoch=1, moved_bytes=GIB, took_s=1.5))
    hq.reported(run.node_id, NodeReclaimed(freed_after_s=2.0, gpus=(0, 1)))
    hq.later(900).captured(OWN, step=40, stall_s=0.0, tier=Tier.SYSTEM, size_bytes=400 * GIB)
    return hq.ended(RUN, EndReason.SAVED, step=40, saved_for=EndReason.DEADLINE, at_s=hq.now_s)


def test_it_goes_on_elsewhere_from_where_it_stood_and_its_story_says_so() -> None:
    hq, _ = a_campus(alpha=able(), beta=facts(), gamma=able())
    cost = hq.job().cost
    decision = taken_as_it_stood(hq)
    (told,) = (reason.sentence() for reason in decision.reasons if reason.why is Why.PARKED_GOES_ON)
    assert told.startswith("after 15 min in the memory of alpha it was taken as it stood there")
    # 400 GiB are waited for, however small its saves have been so far.
    assert (timers_of(decision)["flush:job-m1"] or 0.0) > hq.now_s + 3600
    (order,) = (order for _, order in orders(hq.later(600).durable(OWN, step=40, final=True)))
    assert isinstance(order, StartRun)
    assert (order.run_id, order.restore, order.whole, order.tier) == ("job-e2", OWN, True, Tier.APP)
    assert hq.run("job-e2").node_id == "gamma"  # beta could not bring it back
    assert hq.job().cost.ship_bytes == cost.ship_bytes  # its next save is one of its program's
    back = RunStarted(
        run_id=order.run_id, job_id=order.job_id, epoch=2, restored=OWN, resumed_step=40, restore_s=1.0,
        tier=Tier.SYSTEM,
    )  # fmt: skip
    arrived = hq.reported("gamma", back)
    assert {Why.RESUMED_WHOLE, Why.MOVED} <= set(whys(arrived, "job"))


def test_a_dump_that_nobody_can_take_for_long_is_given_up_for_what_its_program_saved_before() -> None:
    hq, _ = a_campus(alpha=able(), beta=facts(), gamma=able())
    hq.fires("checkpoint:job-e1")
    hq.durable("job-e1-c1", step=30)
    taken_as_it_stood(hq)
    hq.reported("gamma", NodePaused())
    hq.durable(OWN, step=40, final=True)
    assert hq.job().epoch == 1
    decision = hq.later(DUMP_PATIENCE_S).fires("replan")
    assert Why.DUMP_SPOILED in whys(decision, "job")
    job = hq.job()
    assert job.durable is not None
    assert (job.durable.step, job.spoiled, job.dumps_given_up) == (30, (OWN,), False)


def test_a_dump_is_not_given_up_for_a_machine_that_would_not_take_the_job_anyway() -> None:
    hq, _ = a_campus(alpha=able(), beta=facts(), gamma=able())
    taken_as_it_stood(hq)
    for node in ("beta", "gamma"):
        hq.reported(node, NodePaused())
    hq.durable(OWN, step=40, final=True)
    hq.later(DUMP_PATIENCE_S).fires("replan")
    assert hq.job().dump is not None


def test_a_dump_that_only_the_vault_knows_of_is_left_alone_after_two_machines_that_could_not() -> None:
    hq, _ = a_campus(alpha=able(), beta=able(), gamma=able())
    hq.fires("checkpoint:job-e1")
    hq.durable("job-e1-c1", step=30)
    hq.ended(RUN, EndReason.NODE_LOST, step=40)  # its dump was sealed, and no word of it came
    for run in ("job-e2", "job-e3"):
        hq.ended(run, EndReason.REFUSED, why=Why.DUMP_REFUSED_THERE, detail="CRIU: bad size")
    job = hq.job()
    assert job.durable is not None
    assert (job.durable.step, job.dumps_given_up) == (30, True)
