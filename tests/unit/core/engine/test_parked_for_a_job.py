"""A victim that can be parked leaves its GPU at once, stands still in memory, and goes on where it stood."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import JobId, RunId
from gpunion.domain.jobs.account import Quota
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.guest import GuestPhase
from gpunion.domain.jobs.job import CheckpointWish, JobPhase, Priority
from gpunion.domain.jobs.migration import Cause, MigrationPhase, Way
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.decision import Decision
from gpunion.domain.protocol.events import GuestParked, JobStopAsked, QuotaSet
from gpunion.domain.protocol.orders import ParkRun, StartRun, StopRun, TakeCheckpoint, UnparkRun
from gpunion.domain.protocol.reports import (
    CheckpointFailed,
    NodeReclaimed,
    NodeResumed,
    NoticeGiven,
    RunNotParked,
    RunParked,
    RunUnparked,
)
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import GIB
from gpunion.domain.system_tier import SystemAbility, Tier
from gpunion.policy.policies import LIVE
from gpunion.policy.preemption import SETTLED_LEAST_S
from tests.builders import Headquarters, a_spec, facts, orders, whys
from tests.builders.campus import Campus

USER = f"user:{a_spec().owner}"
DUMPS = SystemAbility(able=True, why_not="", kind="x86_64 linux")


def parking(
    *,
    gpus: int = 1,
    dumps: bool = False,
    memory_gib: float = 64,
    max_guests: int = 16,
    autonomy_s: float = 0.0,
) -> NodeFacts:
    terms = Terms(park=True, max_guests=max_guests, autonomy_s=autonomy_s)
    of = facts(gpus=gpus, memory_gib=memory_gib, lab="", terms=terms)
    return replace(of, parks=True, system=DUMPS if dumps else of.system)


def a_full_campus(
    *lower: str, of: NodeFacts | None = None, priority: Priority = Priority.LOW
) -> Headquarters:
    headquarters = Headquarters(policies=LIVE, now_s=0.0)
    headquarters.joins("alpha", of or parking(gpus=len(lower)))
    for name in lower:
        headquarters.later(10.0).submits(name, a_spec(priority=priority))
        headquarters.started(f"{name}-e1")
    headquarters.later(100.0)
    return headquarters


def urgent(headquarters: Headquarters, name: str = "urgent", *, gpus: int = 1) -> Decision:
    return headquarters.submits(name, a_spec(gpus=gpus, priority=Priority.HIGH))


def said(headquarters: Headquarters, report: type, id: str = "low-e1", **more: object) -> Decision:
    run = headquarters.run(id)
    of = {"run_id": run.id, "job_id": run.job_id, "epoch": run.epoch}
    return headquarters.reported(run.node_id, report(**of, **more))


def parked(headquarters: Headquarters, id: str = "low-e1") -> Decision:
    return said(headquarters.later(2.0), RunParked, id, moved_bytes=10 * GIB, took_s=2.0)


def unparked(headquarters: Headquarters, id: str = "low-e1") -> Decision:
    return said(headquarters.later(1.0), RunUnparked, id, parked_s=60.0, took_s=1.0)


def ordered(decision: Decision) -> list[tuple[type, str]]:
    return [(type(order), str(order.run_id)) for _, order in orders(decision)]


def migration(headquarters: Headquarters, job: str = "low") -> MigrationPhase:
    number = headquarters.job(job).migrations
    return headquarters.state.migrations[f"{job}-m{number}"].phase  # type: ignore[index]


def waits(headquarters: Headquarters, job: str) -> str:
    return headquarters.engine.waits_because(headquarters.now_s, JobId(job))[0].sentence()


def test_it_is_parked_the_urgent_job_starts_and_it_goes_on_when_that_has_ended() -> None:
    headquarters = a_full_campus("low")
    assert ordered(urgent(headquarters)) == [(ParkRun, "low-e1")]
    assert headquarters.job("urgent").phase is JobPhase.PENDING  # its GPU is not free yet
    assert "is being parked there in memory first" in waits(headquarters, "urgent")
    assert ordered(parked(headquarters)) == [(StartRun, "urgent-e1")]
    headquarters.started("urgent-e1")
    headquarters.later(60.0)
    assert ordered(headquarters.ended("urgent-e1", EndReason.FINISHED, exit_code=0)) == [
        (UnparkRun, "low-e1")
    ]
    assert Why.UNPARKED in whys(unparked(headquarters))
    assert headquarters.job("low").phase is JobPhase.RUNNING
    done = next(iter(headquarters.state.migrations.values()))
    assert (done.cause, done.way, done.phase) == (Cause.PREEMPTED, Way.PARK, MigrationPhase.DONE)
    assert (done.room_for, done.steps_redone, done.downtime_s) == ("urgent", 0, 61.0)


def test_what_it_gave_away_is_counted_to_nobody_twice() -> None:
    headquarters = a_full_campus("low")
    urgent(headquarters)
    parked(headquarters)
    accounts = headquarters.state.memories.accounts
    assert accounts[USER].held_gpus == 1  # the urgent one's
    headquarters.started("urgent-e1")
    headquarters.later(60.0).ended("urgent-e1", EndReason.FINISHED, exit_code=0)
    unparked(headquarters)
    assert headquarters.state.memories.accounts[USER].held_gpus == 1
    before_s = headquarters.node().lent_gpu_s
    headquarters.later(10.0).ended("low-e1", EndReason.FINISHED, exit_code=0)
    assert headquarters.node().lent_gpu_s - before_s == 11.0
    assert headquarters.state.memories.accounts[USER].held_gpus == 0


def test_both_are_told_who_has_the_gpu_and_until_when() -> None:
    headquarters = a_full_campus("low")
    headquarters.submits("urgent", a_spec(priority=Priority.HIGH, expected_s=300.0))
    parked(headquarters)
    headquarters.started("urgent-e1")
    headquarters.later(58.0)
    assert waits(headquarters, "low") == (
        "it has stood still in the memory of alpha for 58 s, with nothing lost: urgent, of class high, has "
        "its GPU and says that it is done in about 5 min; it goes on after that, or elsewhere, and has its "
        "turn in 14 min 2 s at the latest"
    )
    told = [reason.sentence() for _, reason in headquarters.told if reason.subject == "low"]
    assert any("it is parked in its memory first, with 100 s of its work not saved" in one for one in told)
    assert any(
        one.startswith("10 GiB of its GPU memory went into the memory of alpha in 2 s") for one in told
    )


def test_a_program_that_is_known_to_save_sooner_than_it_worked_is_asked_to_before() -> None:
    headquarters = a_full_campus("low")
    headquarters.fires("checkpoint:low-e1")
    headquarters.captured("low-e1-c1", step=10, stall_s=8.0)
    headquarters.durable("low-e1-c1", step=10)
    assert ordered(urgent(headquarters, "soon")) == [(ParkRun, "low-e1")]
    other = a_full_campus("low")
    other.fires("checkpoint:low-e1")
    other.captured("low-e1-c1", step=10, stall_s=8.0)
    other.durable("low-e1-c1", step=10)
    other.later(9.0)
    assert ordered(urgent(other)) == [(TakeCheckpoint, "low-e1")]


def test_one_that_could_not_be_parked_is_saved_instead_and_not_tried_again() -> None:
    headquarters = a_full_campus("low")
    urgent(headquarters)
    decision = said(headquarters, RunNotParked, detail="the driver says no")
    assert ordered(decision) == [(TakeCheckpoint, "low-e1")]
    told = [reason.sentence() for _, reason in headquarters.told]
    assert "it could not be parked on alpha (the driver says no); it is saved instead" in told
    headquarters.captured("low-e1-c1", step=5)
    headquarters.ended("low-e1", EndReason.SAVED, step=5)
    assert headquarters.job("urgent").phase is JobPhase.STARTING
    headquarters.durable("low-e1-c1", step=5, final=True)
    assert headquarters.job("low").phase is JobPhase.MIGRATING


def test_one_that_can_leave_in_no_way_stays_and_somebody_else_makes_room() -> None:
    headquarters = a_full_campus("low", "other")
    for name in ("low", "other"):
        headquarters.fires(f"checkpoint:{name}-e1")
        headquarters.not_saved(f"{name}-e1-c1")
    assert ordered(urgent(headquarters)) == [(ParkRun, "other-e1")]
    decision = said(headquarters, RunNotParked, "other-e1", detail="it computes on two GPUs")
    assert ordered(decision) == [(ParkRun, "low-e1")]
    assert headquarters.job("other").phase is JobPhase.RUNNING
    assert headquarters.job("other").migration is None


def test_one_that_cannot_leave_without_a_loss_is_left_where_it_is_unless_it_is_preemptible() -> None:
    headquarters = a_full_campus("low", of=facts(lab=""))
    headquarters.fires("checkpoint:low-e1")
    headquarters.not_saved("low-e1-c1")
    assert ordered(urgent(headquarters)) == []
    assert "cannot leave without a loss" in waits(headquarters, "urgent")
    willing = Headquarters(policies=LIVE, now_s=0.0)
    willing.joins("alpha", facts(lab=""))
    willing.submits("low", replace(a_spec(priority=Priority.LOW), preemptible=True))
    willing.started("low-e1")
    willing.later(100.0).fires("checkpoint:low-e1")
    willing.not_saved("low-e1-c1")
    assert ordered(urgent(willing)) == [(StopRun, "low-e1")]
    willing.ended("low-e1", EndReason.STOPPED, step=7)
    assert willing.job("urgent").phase is JobPhase.STARTING
    assert willing.job("low").phase is JobPhase.MIGRATING


def test_where_memory_for_both_is_short_nobody_is_parked() -> None:
    headquarters = Headquarters(policies=LIVE, now_s=0.0)
    headquarters.joins("alpha", parking(memory_gib=12))
    low = a_spec(priority=Priority.LOW)
    headquarters.submits("low", replace(low, request=replace(low.request, memory_bytes=4 * GIB)))
    headquarters.started("low-e1")
    wants = a_spec(priority=Priority.HIGH)
    wants = replace(wants, request=replace(wants.request, memory_bytes=10 * GIB))
    headquarters.later(100.0)
    assert ordered(headquarters.submits("urgent", wants)) == [(TakeCheckpoint, "low-e1")]


def test_nor_where_its_owner_allows_one_guest_at_a_time_or_no_parking() -> None:
    one_guest = a_full_campus("low", of=parking(max_guests=1))
    assert ordered(urgent(one_guest)) == [(TakeCheckpoint, "low-e1")]
    forbidden = a_full_campus("low", of=replace(parking(), terms=Terms()))
    assert ordered(urgent(forbidden)) == [(TakeCheckpoint, "low-e1")]


def test_its_cpus_are_free_too_and_it_needs_them_again() -> None:
    headquarters = Headquarters(policies=LIVE, now_s=0.0)
    headquarters.joins("alpha", replace(parking(), capacity=replace(parking().capacity, cpus=2.0)))
    wide = a_spec(priority=Priority.LOW)
    headquarters.submits("low", replace(wide, request=replace(wide.request, cpus=2.0)))
    headquarters.started("low-e1")
    headquarters.later(100.0)
    urgent(headquarters)
    assert (StartRun, "urgent-e1") in ordered(parked(headquarters))
    headquarters.started("urgent-e1")
    side = a_spec(priority=Priority.LOW)
    side = replace(side, request=replace(side.request, gpus=0, cpus=1.0))
    headquarters.submits("side", side)
    headquarters.started("side-e1")
    assert ordered(headquarters.ended("urgent-e1", EndReason.FINISHED, exit_code=0)) == []
    assert ordered(headquarters.ended("side-e1", EndReason.FINISHED, exit_code=0)) == [(UnparkRun, "low-e1")]


def test_the_urgent_job_is_stopped_meanwhile_and_the_other_gets_back_at_once() -> None:
    headquarters = a_full_campus("low")
    urgent(headquarters)
    headquarters.hears(JobStopAsked(job_id=JobId("urgent")))
    assert ordered(parked(headquarters)) == [(UnparkRun, "low-e1")]
    unparked(headquarters)
    assert ordered(urgent(headquarters, "next")) == []  # it keeps its place for ten minutes
    headquarters.later(SETTLED_LEAST_S).fires("replan")
    assert headquarters.run("low-e1").parking


def test_the_urgent_job_fails_to_start_and_the_other_gets_back() -> None:
    headquarters = a_full_campus("low")
    urgent(headquarters)
    parked(headquarters)
    decision = headquarters.ended("urgent-e1", EndReason.START_FAILED)
    assert (UnparkRun, "low-e1") in ordered(decision)


def test_nobody_of_a_lower_or_the_same_class_gets_in_between() -> None:
    headquarters = a_full_campus("low")
    urgent(headquarters)
    parked(headquarters)
    headquarters.started("urgent-e1")
    headquarters.submits("newcomer", a_spec(priority=Priority.LOW))
    decision = headquarters.later(60.0).ended("urgent-e1", EndReason.FINISHED, exit_code=0)
    assert ordered(decision) == [(UnparkRun, "low-e1")]
    assert headquarters.job("newcomer").phase is JobPhase.PENDING


def test_a_wide_urgent_job_waits_for_both_and_what_the_first_left_is_kept_for_it() -> None:
    headquarters = a_full_campus("a", "b")
    headquarters.hears(QuotaSet(quota=Quota(id="user:*:high", gpus=4, set_s=0.0)))
    assert ordered(urgent(headquarters, gpus=2)) == [(ParkRun, "b-e1"), (ParkRun, "a-e1")]
    headquarters.submits("newcomer", a_spec(priority=Priority.NORMAL))
    assert ordered(parked(headquarters, "a-e1")) == []
    assert ordered(parked(headquarters, "b-e1")) == [(StartRun, "urgent-e1")]


def test_it_goes_elsewhere_as_it_stands_where_there_is_a_place() -> None:
    headquarters = a_full_campus("low", of=parking(dumps=True))
    headquarters.joins("beta", replace(parking(dumps=True), terms=Terms(deny_labs=("students",))))
    urgent(headquarters)
    parked(headquarters)
    assert ordered(headquarters.started("urgent-e1")) == []  # beta turns its lab away
    decision = headquarters.joins("gamma", parking(dumps=True))
    assert ordered(decision) == [(TakeCheckpoint, "low-e1")]
    (order,) = [one for _, one in orders(decision) if isinstance(one, TakeCheckpoint)]
    assert order.final
    assert order.whole
    headquarters.captured("low-e1-c1", step=5, stall_s=0.0, tier=Tier.SYSTEM)
    headquarters.ended("low-e1", EndReason.SAVED, step=5)
    headquarters.durable("low-e1-c1", step=5, final=True)
    assert headquarters.run("low-e2").node_id == "gamma"
    assert headquarters.run("low-e2").restored_from == "low-e1-c1"


def test_one_that_could_not_be_dumped_stands_still_on_and_gets_back_later() -> None:
    headquarters = a_full_campus("low", of=parking(dumps=True))
    urgent(headquarters)
    parked(headquarters)
    headquarters.started("urgent-e1")
    headquarters.joins("beta", parking(dumps=True))
    headquarters.fires("replan")
    id = headquarters.run("low-e1").id
    failed = CheckpointFailed(
        run_id=id,
        job_id=JobId("low"),
        epoch=1,
        checkpoint_id=f"{id}-c1",  # type: ignore[arg-type]
        trouble=CheckpointTrouble.PARKED,
        detail="the disk is full",
    )
    headquarters.reported("alpha", failed)
    assert (headquarters.job("low").phase, migration(headquarters)) == (
        JobPhase.RUNNING,
        MigrationPhase.PARKED,
    )
    assert ordered(headquarters.later(15.0).fires("replan")) == []  # it is not tried again
    decision = headquarters.ended("urgent-e1", EndReason.FINISHED, exit_code=0)
    assert ordered(decision) == [(UnparkRun, "low-e1")]


def test_who_has_stood_for_too_long_is_dumped_into_the_queue() -> None:
    headquarters = a_full_campus("low", of=parking(dumps=True))
    headquarters.joins("beta", replace(parking(dumps=True), terms=Terms(deny_labs=("students",))))
    urgent(headquarters)
    parked(headquarters)
    headquarters.started("urgent-e1")
    headquarters.later(900.0)
    assert ordered(headquarters.fires("parked:low-e1")) == [(TakeCheckpoint, "low-e1")]


def test_or_gets_its_gpu_again_and_whoever_has_it_stands_still_instead() -> None:
    headquarters = a_full_campus("low")
    urgent(headquarters)
    parked(headquarters)
    headquarters.started("urgent-e1")
    headquarters.later(900.0)
    assert ordered(headquarters.fires("parked:low-e1")) == [(ParkRun, "urgent-e1")]
    assert ordered(parked(headquarters, "urgent-e1")) == [(UnparkRun, "low-e1")]
    unparked(headquarters)
    assert headquarters.job("urgent").phase is JobPhase.RUNNING
    assert headquarters.run("urgent-e1").gave_place
    decision = headquarters.later(60.0).ended("low-e1", EndReason.FINISHED, exit_code=0)
    assert ordered(decision) == [(UnparkRun, "urgent-e1")]


def test_nothing_is_heard_of_its_parking_and_it_is_saved_instead() -> None:
    headquarters = a_full_campus("low")
    urgent(headquarters)
    headquarters.later(90.0)
    given_up = ordered(headquarters.fires("flush:low-m1"))
    assert given_up == [(UnparkRun, "low-e1"), (TakeCheckpoint, "low-e1")]


def test_who_was_parked_without_anybody_hearing_of_it_is_told_to_go_on() -> None:
    headquarters = a_full_campus("low")
    urgent(headquarters)
    headquarters.later(90.0).fires("flush:low-m1")
    assert ordered(parked(headquarters)) == [(UnparkRun, "low-e1")]  # its save is waited for
    of = {"checkpoint_id": "low-e1-c1", "trouble": CheckpointTrouble.PARKED}
    said(headquarters, CheckpointFailed, **of)
    headquarters.hears(JobStopAsked(job_id=JobId("urgent")))
    before = len(headquarters.told)
    assert ordered(parked(headquarters)) == [(UnparkRun, "low-e1")]  # nobody asks anything of it any more
    assert headquarters.run("low-e1").parking  # no save is asked for
    assert Why.PARKED not in [reason.why for _, reason in headquarters.told[before:]]
    unparked(headquarters)
    assert (headquarters.job("low").phase, headquarters.run("low-e1").parking) == (JobPhase.RUNNING, False)


def test_who_was_parked_for_its_owner_is_sent_back_by_its_own_machine_alone() -> None:
    headquarters = a_full_campus("low")
    urgent(headquarters)
    headquarters.later(90.0).fires("flush:low-m1")
    said(headquarters, CheckpointFailed, checkpoint_id="low-e1-c1", trouble=CheckpointTrouble.PARKED)
    deadline_s = headquarters.now_s + 60.0
    headquarters.reported("alpha", NoticeGiven(deadline_s=deadline_s, gpus=(0,), parking=(RunId("low-e1"),)))
    assert ordered(parked(headquarters)) == []
    assert headquarters.told[-1][1].why is Why.PARKED


def test_an_order_to_park_that_was_given_up_on_its_way_says_nothing_when_it_arrives() -> None:
    campus = Campus(policies=replace(LIVE, learning=None))
    machine = campus.adds("alpha", parking(autonomy_s=600.0))
    machine.parks = True
    campus.submits("low", a_spec(priority=Priority.LOW))
    campus.advance(60.0)
    machine.linked = False
    campus.submits("urgent", a_spec(priority=Priority.HIGH))
    campus.advance(120.0)
    machine.linked = True
    campus.hangs_up("alpha")
    campus.advance(60.0)
    guest = machine.station.engine.state.guests[RunId("urgent-e1")]
    assert guest.phase is GuestPhase.RUNNING
    assert not [report for _, report in campus.told if report.why is Why.PARKED_FOR]


def test_one_that_stood_still_while_its_wire_was_cut_goes_on() -> None:
    campus = Campus(policies=replace(LIVE, learning=None))
    machine = campus.adds("alpha", parking(autonomy_s=600.0))
    machine.parks = None  # its driver takes its time
    campus.submits("low", a_spec(priority=Priority.LOW))
    campus.advance(60.0)
    campus.submits("urgent", a_spec(priority=Priority.HIGH))
    campus.advance(1.0)
    machine.linked = False
    campus.advance(3.0)
    machine.decide(GuestParked(run_id=RunId("low-e1"), moved_bytes=10 * GIB, took_s=4.0))
    machine.parks = True
    campus.advance(150.0)
    machine.linked = True
    campus.hangs_up("alpha")
    campus.advance(30.0)
    campus.stops("urgent")
    campus.advance(600.0)
    guest = machine.station.engine.state.guests[RunId("low-e1")]
    assert (guest.parking, guest.room_for) == (None, None)
    assert campus.job("low").phase is JobPhase.RUNNING


def test_its_owner_wants_the_gpu_while_another_has_it_and_both_go_on_after() -> None:
    headquarters = a_full_campus("low")
    urgent(headquarters)
    parked(headquarters)
    headquarters.started("urgent-e1")
    run_id = RunId("urgent-e1")
    headquarters.reported("alpha", NoticeGiven(deadline_s=400.0, gpus=(0,), parking=(run_id,)))
    said(headquarters, RunParked, "urgent-e1", moved_bytes=GIB, took_s=1.0)
    headquarters.reported("alpha", NodeReclaimed(freed_after_s=1.0, gpus=(0,)))
    assert ordered(headquarters.reported("alpha", NodeResumed(gpus=(0,)))) == []
    said(headquarters, RunUnparked, "urgent-e1", parked_s=10.0, took_s=1.0)
    decision = headquarters.ended("urgent-e1", EndReason.FINISHED, exit_code=0)
    assert ordered(decision) == [(UnparkRun, "low-e1")]


def test_its_owner_takes_the_machine_while_it_stands_there_and_it_goes_on_from_its_last_save() -> None:
    for reason in (
        EndReason.KILLED_BY_OWNER,
        EndReason.DEADLINE,
        EndReason.LEASE_ENDED,
        EndReason.GUEST_LOST,
    ):
        headquarters = a_full_campus("low")
        urgent(headquarters)
        parked(headquarters)
        headquarters.started("urgent-e1")
        headquarters.ended("low-e1", reason, step=3)
        assert headquarters.job("low").phase is JobPhase.MIGRATING
        causes = [one.cause for one in headquarters.state.migrations.values()]
        assert len(causes) == 2
        assert causes[0] is Cause.PREEMPTED


def test_a_coordinator_that_is_started_again_knows_who_stands_still() -> None:
    headquarters = a_full_campus("low")
    urgent(headquarters)
    headquarters = headquarters.restarts()
    parked(headquarters)
    headquarters = headquarters.restarts()
    headquarters.started("urgent-e1")
    headquarters = headquarters.restarts()
    decision = headquarters.ended("urgent-e1", EndReason.FINISHED, exit_code=0)
    assert ordered(decision) == [(UnparkRun, "low-e1")]
    unparked(headquarters.restarts())


def test_its_user_stops_it_where_it_stands() -> None:
    headquarters = a_full_campus("low")
    urgent(headquarters)
    parked(headquarters)
    headquarters.started("urgent-e1")
    headquarters.hears(JobStopAsked(job_id=JobId("low")))
    headquarters.ended("low-e1", EndReason.STOPPED)
    assert headquarters.job("low").phase is JobPhase.CANCELLED
    assert ordered(headquarters.ended("urgent-e1", EndReason.FINISHED, exit_code=0)) == []


def test_nobody_gets_back_onto_a_gpu_because_its_machine_says_so() -> None:
    headquarters = a_full_campus("low")
    urgent(headquarters)
    parked(headquarters)
    headquarters.started("urgent-e1")
    unparked(headquarters)
    assert headquarters.run("low-e1").gave_place


def test_what_parking_took_on_a_machine_is_what_is_expected_there_the_next_time() -> None:
    headquarters = a_full_campus("low")
    urgent(headquarters)
    assert "expected in about 5 s" in waits(headquarters, "urgent")
    parked(headquarters)
    seen = headquarters.node().parks
    assert seen is not None
    assert (seen.expected_s(10 * GIB), seen.expected_s(20 * GIB)) == (2.0, 4.0)


def test_a_guest_whose_job_is_dumped_at_all_times_is_dumped_where_it_cannot_be_parked() -> None:
    of = replace(parking(dumps=True), parks=False)
    headquarters = Headquarters(policies=LIVE, now_s=0.0)
    headquarters.joins("alpha", of)
    spec = replace(a_spec(priority=Priority.LOW), checkpoint=CheckpointWish(tier=Tier.SYSTEM))
    headquarters.submits("low", spec)
    headquarters.started("low-e1")
    headquarters.later(100.0)
    (order,) = [one for _, one in orders(urgent(headquarters)) if isinstance(one, TakeCheckpoint)]
    assert order.dump
    assert order.final


def test_why_it_could_not_be_parked_is_said_when_it_is_placed() -> None:
    headquarters = a_full_campus("low", of=replace(parking(), parks=False))
    told = [reason.sentence() for _, reason in headquarters.told if reason.why is Why.CANNOT_BE_PARKED]
    assert told == [
        "it could not be parked in the memory of alpha for a job of a higher class (the driver there cannot "
        "move what a guest has on a GPU): it would be saved first, or stay"
    ]
