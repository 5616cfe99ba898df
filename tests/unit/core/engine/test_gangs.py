"""A gang runs all together or not at all: placed, saved, moved, ended and stopped as one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpunion.domain.account import Quota
from gpunion.domain.checkpoint import CheckpointTrouble
from gpunion.domain.decision import Decision
from gpunion.domain.effects import AskToSave, ParkGuest, ShipCheckpoint
from gpunion.domain.events import (
    AgentStarted,
    GuestFound,
    GuestStarted,
    OwnerReclaimed,
    QuotaSet,
    TimerFired,
)
from gpunion.domain.gang import Seat
from gpunion.domain.ids import CheckpointId, JobId, RunId, own_checkpoint_id
from gpunion.domain.job import JobPhase, Priority
from gpunion.domain.node import DiskRoom
from gpunion.domain.orders import StartRun, StopRun, TakeCheckpoint
from gpunion.domain.reasons import Why
from gpunion.domain.reports import NodeReclaimed, NodeResumed, NoticeGiven
from gpunion.domain.resources import Request
from gpunion.domain.run import EndReason, RunPhase
from gpunion.domain.terms import Terms
from gpunion.policy.gangs.placing import GANG_PATIENCE_S
from gpunion.policy.policies import LIVE
from tests.builders import (
    Headquarters,
    LoneAgent,
    a_save_order,
    a_spec,
    a_start,
    deeds,
    facts,
    orders,
    timers_of,
    whys,
)

MEMBERS = ("job", "job-r1")
RUNS = ("job-e1", "job-r1-e1")
BOTH = {JobId(one) for one in MEMBERS}


def a_gang_spec(size: int = 2, **more: Any) -> Any:
    return replace(a_spec(**more), seat=Seat(size=size))


def a_running_gang(*nodes: str, **more: Any) -> Headquarters:
    """Member 0 on alpha, member 1 on beta; the other nodes are free."""
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.joins("beta")
    headquarters.submits("job", a_gang_spec(**more))
    for run in RUNS:
        headquarters.later(1).started(run)
    for node in nodes:
        headquarters.joins(node)
    return headquarters


def of_kind(decision: Decision, kind: type) -> dict[str, Any]:
    """Orders by run."""
    return {order.run_id: order for _, order in orders(decision) if isinstance(order, kind)}


def told(headquarters: Headquarters, job: str, why: Why) -> list[str]:
    return [r.sentence() for _, r in headquarters.told if r.subject == job and r.why is why]


def phases(headquarters: Headquarters) -> list[str]:
    return [headquarters.job(one).phase.value for one in MEMBERS]


def saved_together(headquarters: Headquarters, step: int, *, number: int = 1, final: bool = False) -> None:
    for run in RUNS:
        headquarters.captured(f"{run}-c{number}", step=step)
        headquarters.durable(f"{run}-c{number}", step=step, final=final)


def test_all_members_are_placed_in_one_decision_or_none_is() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=1, terms=Terms(max_guests=1)))
    headquarters.joins("beta")
    headquarters.submits("single")
    headquarters.started("single-e1")
    decision = headquarters.submits("job", a_gang_spec())
    assert orders(decision) == []
    assert whys(decision, "job-r1") == [Why.SUBMITTED, Why.GANG_SEAT, Why.GANG_WAITS]
    assert "1 of its gang's 2 members" in told(headquarters, "job", Why.GANG_WAITS)[0]
    started = of_kind(headquarters.later(1).joins("gamma"), StartRun)
    assert started.keys() == set(RUNS)
    assert [order.seat for order in started.values()] == [Seat(size=2, rank=0), Seat(size=2, rank=1)]


def test_members_share_a_machine_that_has_room_for_both() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=2))
    headquarters.joins("beta", facts(gpus=1))
    headquarters.submits("job", a_gang_spec())
    assert {headquarters.run(run).node_id for run in RUNS} == {"alpha"}


def test_of_two_gangs_that_do_not_both_fit_one_runs_and_the_other_holds_nothing() -> None:
    headquarters = Headquarters()
    for node in ("alpha", "beta", "gamma"):
        headquarters.joins(node)
    headquarters.submits("job", a_gang_spec())
    headquarters.later(1).submits("other", a_gang_spec())
    assert phases(headquarters) == ["starting", "starting"]
    assert [headquarters.job(one).phase.value for one in ("other", "other-r1")] == ["pending", "pending"]
    assert sum(len(runs) for runs in headquarters.state.living.values()) == 2


def test_a_gang_that_no_machines_could_ever_have_is_turned_away() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=4, terms=Terms(max_guests=2)))
    headquarters.joins("beta", facts(gpus=4, terms=Terms(deny_labs=("students",))))
    decision = headquarters.submits("job", a_gang_spec(3))
    assert [(reason.subject, reason.why) for reason in decision.reasons] == [
        ("job", Why.GANG_IMPOSSIBLE),
        ("alpha", Why.GANG_ROOM),
        ("beta", Why.LAB_NOT_ADMITTED),
    ]
    assert "there is room for 2" in decision.reasons[0].sentence()
    assert "room for 2 of the 3 members" in decision.reasons[1].sentence()
    assert headquarters.state.jobs == {}


def test_a_gang_waits_for_a_disk_to_have_room_and_keeps_nothing_from_others_meanwhile() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.joins("beta", facts(disk=DiskRoom.SHORT))
    decision = headquarters.submits("job", a_gang_spec())
    assert Why.GANG_IMPOSSIBLE not in whys(decision)
    assert phases(headquarters) == ["pending", "pending"]
    headquarters.later(GANG_PATIENCE_S + 1).submits("single")
    assert headquarters.run("single-e1").node_id == "alpha"
    headquarters.later(1).ended("single-e1", EndReason.FINISHED, exit_code=0)
    headquarters.later(1).joins("beta", facts())
    assert phases(headquarters) == ["starting", "starting"]


def test_members_save_at_the_same_step_and_it_counts_once_all_have_saved_it() -> None:
    headquarters = a_running_gang()
    headquarters.engine.note_progress(headquarters.run("job-e1").id, 40, 0.4)
    headquarters.engine.note_progress(headquarters.run("job-r1-e1").id, 38, 0.4)
    saves = of_kind(headquarters.fires("checkpoint:job-e1"), TakeCheckpoint)
    assert saves.keys() == set(RUNS)
    [step] = {order.at_step for order in saves.values()}
    assert step > 40
    headquarters.durable("job-e1-c1", step=step)
    assert headquarters.job("job").durable is None
    decision = headquarters.durable("job-r1-c1".replace("-c1", "-e1-c1"), step=step)
    assert {headquarters.job(one).durable.step for one in MEMBERS} == {step}  # type: ignore[union-attr]
    assert list(timers_of(decision)) == ["checkpoint:job-e1"]
    again = of_kind(headquarters.fires("checkpoint:job-e1"), TakeCheckpoint)
    assert {order.keep for order in again.values()} == {"job-e1-c1", "job-r1-e1-c1"}


def test_saves_of_different_steps_make_nothing_durable() -> None:
    headquarters = a_running_gang()
    headquarters.fires("checkpoint:job-e1")
    headquarters.durable("job-e1-c1", step=7)
    assert told(headquarters, "job", Why.GANG_APART) == []
    headquarters.durable("job-r1-e1-c1", step=8)
    assert [headquarters.job(one).durable for one in MEMBERS] == [None, None]
    assert told(headquarters, "job", Why.GANG_APART) == [
        "its gang's members saved different steps (7, 8), which counts for nobody; "
        "all would go on from step 0"
    ]


def test_when_an_owner_comes_back_all_are_saved_at_one_step_and_go_on_together() -> None:
    headquarters = a_running_gang("gamma")
    decision = headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 60))
    saves = of_kind(decision, TakeCheckpoint)
    assert saves.keys() == set(RUNS)
    assert all(order.final for order in saves.values())
    assert len({order.at_step for order in saves.values()}) == 1
    assert told(headquarters, "job-r1", Why.GANG_SAVES) == [
        "member 0 has to leave alpha: its owner wants it back; "
        "all 2 members are saved at the same step and go on together"
    ]
    saved_together(headquarters, 50, final=True)
    assert orders(headquarters.ended("job-e1", EndReason.SAVED, step=50)) == []
    started = of_kind(headquarters.ended("job-r1-e1", EndReason.SAVED, step=50), StartRun)
    assert {order.restore_step for order in started.values()} == {50}
    assert [order.restore for order in started.values()] == ["job-e1-c1", "job-r1-e1-c1"]
    where = [headquarters.run(run).node_id for run in ("job-e2", "job-r1-e2")]
    assert where == ["gamma", "beta"]  # the one nobody drove out goes on where it was


def test_when_a_member_is_killed_the_others_stop_and_all_go_back_to_the_step_all_have() -> None:
    headquarters = a_running_gang("gamma")
    headquarters.fires("checkpoint:job-e1")
    saved_together(headquarters, 20)
    headquarters.fires("checkpoint:job-e1")
    headquarters.durable("job-e1-c2", step=30)  # the other one never comes there
    headquarters.reported("beta", NodeReclaimed(freed_after_s=0, killed=True))
    decision = headquarters.ended("job-r1-e1", EndReason.KILLED_BY_OWNER, step=29)
    assert of_kind(decision, StopRun).keys() == {"job-e1"}
    assert "its owner took it back without notice" in told(headquarters, "job", Why.GANG_STOPS)[0]
    started = of_kind(headquarters.ended("job-e1", EndReason.STOPPED, step=31), StartRun)
    assert {(order.restore, order.restore_step) for order in started.values()} == {
        ("job-e1-c1", 20),
        ("job-r1-e1-c1", 20),
    }


def test_a_lost_machine_takes_the_gang_along_after_its_fence() -> None:
    headquarters = a_running_gang("gamma")
    headquarters.silent("beta")
    assert phases(headquarters) == ["running", "running"]
    decision = headquarters.fires("give_up:job-r1-e1")
    assert of_kind(decision, StopRun).keys() == {"job-e1"}
    headquarters.ended("job-e1", EndReason.STOPPED)
    assert {headquarters.run(run).node_id for run in ("job-e2", "job-r1-e2")} == {"alpha", "gamma"}


def test_a_member_that_cannot_save_is_stopped_and_what_all_had_before_counts() -> None:
    headquarters = a_running_gang("gamma")
    headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 60))
    decision = headquarters.not_saved("job-r1-e1-c1", CheckpointTrouble.NOT_ANSWERED)
    assert of_kind(decision, StopRun).keys() == {"job-r1-e1"}
    headquarters.ended("job-r1-e1", EndReason.STOPPED)
    headquarters.durable("job-e1-c1", step=50, final=True)
    started = of_kind(headquarters.ended("job-e1", EndReason.SAVED, step=50), StartRun)
    assert {order.restore for order in started.values()} == {None}


def test_a_member_whose_notice_was_too_short_leaves_no_open_move_when_another_is_saved() -> None:
    headquarters = a_running_gang("gamma", "delta")
    headquarters.later(100).reported("beta", NoticeGiven(deadline_s=headquarters.now_s + 3))
    saves = headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 60))
    assert of_kind(saves, TakeCheckpoint).keys() == set(RUNS)
    saved_together(headquarters, 50, final=True)
    for run in RUNS:
        headquarters.ended(run, EndReason.SAVED, step=50)
    for run in ("job-e2", "job-r1-e2"):
        headquarters.started(run)
    moves = {one.id: one.phase.value for one in headquarters.state.migrations.values()}
    assert moves == {"job-m1": "done", "job-r1-m1": "abandoned", "job-r1-m2": "done"}
    assert not headquarters.state.moving


def test_a_member_that_saved_itself_before_it_was_told_to_stop_is_waited_for() -> None:
    headquarters = a_running_gang()
    first, second = (own_checkpoint_id(RunId(run), 1) for run in RUNS)
    headquarters.captured(first, step=500)
    told_to_stop = headquarters.ended("job-e1", EndReason.SAVED, step=500)
    assert of_kind(told_to_stop, StopRun).keys() == {"job-r1-e1"}
    headquarters.captured(second, step=500)
    headquarters.ended("job-r1-e1", EndReason.SAVED, step=500)
    assert orders(headquarters.durable(first, step=500, final=True)) == []
    started = of_kind(headquarters.durable(second, step=500, final=True), StartRun)
    assert [order.restore_step for order in started.values()] == [500, 500]


def test_a_member_that_is_told_to_stop_while_its_save_is_sent_is_waited_for_where_that_completes_a_step() -> (
    None
):
    headquarters = a_running_gang("gamma")
    headquarters.fires("checkpoint:job-e1")
    headquarters.captured("job-e1-c1", step=40)
    headquarters.captured("job-r1-e1-c1", step=40)
    headquarters.durable("job-r1-e1-c1", step=40)
    headquarters.reported("beta", NodeReclaimed(freed_after_s=0, killed=True))
    stopped = headquarters.ended("job-r1-e1", EndReason.KILLED_BY_OWNER, step=45)
    assert of_kind(stopped, StopRun)["job-e1"].spares_save
    assert orders(headquarters.ended("job-e1", EndReason.STOPPED, step=45)) == []
    started = of_kind(headquarters.durable("job-e1-c1", step=40), StartRun)
    assert [order.restore_step for order in started.values()] == [40, 40]


@pytest.mark.parametrize("arrives", [True, False])
def test_a_program_that_broke_while_its_save_was_sent_is_waited_for_no_longer_than_that_takes(
    arrives: bool,
) -> None:
    headquarters = a_running_gang("gamma")
    headquarters.fires("checkpoint:job-e1")
    headquarters.captured("job-e1-c1", step=40)
    headquarters.durable("job-r1-e1-c1", step=40)
    headquarters.ended("job-e1", EndReason.FAILED, exit_code=1)  # nobody knows yet that beta is gone
    headquarters.reported("beta", NodeReclaimed(freed_after_s=0, killed=True))
    assert of_kind(headquarters.ended("job-r1-e1", EndReason.KILLED_BY_OWNER), StartRun) == {}
    if arrives:
        decision = headquarters.durable("job-e1-c1", step=40)
    else:
        decision = headquarters.not_saved("job-e1-c1", CheckpointTrouble.VAULT_UNAVAILABLE)
    started = of_kind(decision, StartRun)
    assert [order.restore_step for order in started.values()] == [40 if arrives else 0] * 2


def test_a_save_that_no_other_member_has_is_not_waited_for() -> None:
    headquarters = a_running_gang("gamma")
    headquarters.fires("checkpoint:job-e1")
    headquarters.captured("job-e1-c1", step=40)
    headquarters.reported("beta", NodeReclaimed(freed_after_s=0, killed=True))
    headquarters.not_saved("job-r1-e1-c1", CheckpointTrouble.DEADLINE)
    headquarters.ended("job-r1-e1", EndReason.KILLED_BY_OWNER, step=39)
    started = of_kind(headquarters.ended("job-e1", EndReason.STOPPED, step=45), StartRun)
    assert {order.restore_step for order in started.values()} == {0}


def a_gang_beside_one_that_leaves() -> Headquarters:
    """Member 1 shares beta with a job whose last save was promised all of the uplink."""
    headquarters = Headquarters()
    headquarters.joins("beta", facts(gpus=2))
    headquarters.submits("single")
    headquarters.started("single-e1")
    headquarters.joins("alpha")
    headquarters.submits("job", a_gang_spec())
    for run in RUNS:
        headquarters.later(1).started(run)
    assert {headquarters.run(run).node_id for run in ("single-e1", "job-r1-e1")} == {"beta"}
    headquarters.joins("gamma", facts(gpus=2))
    gpus = headquarters.run("single-e1").grant.gpu_indices
    wanted = NoticeGiven(deadline_s=headquarters.now_s + 60, gpus=gpus)
    assert of_kind(headquarters.reported("beta", wanted), TakeCheckpoint).keys() == {"single-e1"}
    return headquarters


def test_a_member_whose_uplink_is_promised_away_is_saved_at_the_same_step_all_the_same() -> None:
    headquarters = a_gang_beside_one_that_leaves()
    wanted = headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 60))
    saves = of_kind(wanted, TakeCheckpoint)
    assert {run: order.final for run, order in saves.items()} == {"job-e1": True, "job-r1-e1": False}
    assert len({order.at_step for order in saves.values()}) == 1
    assert saves["job-r1-e1"].rate_bps > 0.0
    headquarters.captured("job-e1-c1", step=50)
    headquarters.durable("job-e1-c1", step=50, final=True)
    assert orders(headquarters.ended("job-e1", EndReason.SAVED, step=50)) == []
    stopped = of_kind(headquarters.captured("job-r1-e1-c1", step=50), StopRun)
    assert stopped["job-r1-e1"].spares_save
    headquarters.ended("job-r1-e1", EndReason.STOPPED, step=50)
    started = of_kind(headquarters.durable("job-r1-e1-c1", step=50), StartRun)
    assert {order.restore_step for order in started.values()} == {50}
    assert headquarters.run("job-r1-e2").node_id == "beta"  # nobody drove it out


def test_a_member_whose_uplink_is_promised_away_and_that_cannot_save_is_stopped() -> None:
    headquarters = a_gang_beside_one_that_leaves()
    headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 60))
    decision = headquarters.not_saved("job-r1-e1-c1", CheckpointTrouble.NOT_ANSWERED)
    assert of_kind(decision, StopRun).keys() == {"job-r1-e1"}
    assert of_kind(decision, TakeCheckpoint) == {}


def test_a_member_that_is_still_starting_is_stopped_without_a_failed_start() -> None:
    headquarters = Headquarters()
    for node in ("alpha", "beta", "gamma"):
        headquarters.joins(node)
    headquarters.submits("job", a_gang_spec())
    headquarters.started("job-e1")
    headquarters.reported("alpha", NodeReclaimed(freed_after_s=0, killed=True))
    headquarters.ended("job-e1", EndReason.KILLED_BY_OWNER)
    assert headquarters.run("job-r1-e1").phase is RunPhase.STOPPING
    started = of_kind(headquarters.ended("job-r1-e1", EndReason.STOPPED), StartRun)
    assert started.keys() == {"job-e2", "job-r1-e2"}
    assert headquarters.job("job-r1").start_failures == 0


def test_a_machine_that_refuses_one_member_is_not_asked_for_any() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=2))
    headquarters.submits("job", a_gang_spec())
    headquarters.ended("job-e1", EndReason.REFUSED, why=Why.NO_LEASE)
    decision = headquarters.ended("job-r1-e1", EndReason.STOPPED)
    assert orders(decision) == []
    assert "refused or failed this job a moment ago" in told(headquarters, "job-r1", Why.GANG_WAITS)[0]


def test_a_gang_succeeds_when_the_last_member_has_finished() -> None:
    headquarters = a_running_gang()
    headquarters.ended("job-e1", EndReason.FINISHED, step=100, exit_code=0)
    assert phases(headquarters) == ["finishing", "running"]
    headquarters.ended("job-r1-e1", EndReason.FINISHED, step=100, exit_code=0)
    assert phases(headquarters) == ["succeeded", "succeeded"]
    assert headquarters.job("job").exit_code == 0


def test_a_member_that_finished_runs_again_when_another_was_interrupted_first() -> None:
    headquarters = a_running_gang("gamma")
    headquarters.fires("checkpoint:job-e1")
    saved_together(headquarters, 20)
    headquarters.ended("job-e1", EndReason.FINISHED, step=100, exit_code=0)
    headquarters.reported("beta", NodeReclaimed(freed_after_s=0, killed=True))
    started = of_kind(headquarters.ended("job-r1-e1", EndReason.KILLED_BY_OWNER, step=99), StartRun)
    assert {order.restore_step for order in started.values()} == {20}
    assert len(started) == 2
    assert "all 2 members run again from step 20" in told(headquarters, "job", Why.GANG_AGAIN)[0]
    assert headquarters.job("job").exit_code is None


def test_a_member_that_fails_fails_the_gang() -> None:
    headquarters = a_running_gang()
    decision = headquarters.ended("job-r1-e1", EndReason.FAILED, exit_code=3)
    assert of_kind(decision, StopRun).keys() == {"job-e1"}
    assert "member 1 failed (exit code 3; see its log)" in told(headquarters, "job", Why.GANG_FAILS)[0]
    headquarters.ended("job-e1", EndReason.STOPPED)
    assert phases(headquarters) == ["failed", "failed"]
    assert told(headquarters, "job-r1", Why.FAILED) == ["failed: exit code 3; see its log"]
    assert told(headquarters, "job", Why.FAILED)[0].startswith("failed: member 1 of its gang failed")


def test_a_program_that_breaks_because_another_machine_is_gone_has_not_failed() -> None:
    headquarters = a_running_gang("gamma")
    headquarters.ended("job-e1", EndReason.FAILED, exit_code=1)  # nobody knows yet that beta is dead
    headquarters.silent("beta")
    headquarters.fires("give_up:job-r1-e1")
    assert phases(headquarters) == ["starting", "starting"]
    assert headquarters.job("job").failure == ""
    headquarters.started("job-e2")
    headquarters.started("job-r1-e2")
    headquarters.reported("gamma", NoticeGiven(deadline_s=headquarters.now_s + 60))
    headquarters.ended("job-e2", EndReason.FAILED, exit_code=1)  # while all are leaving
    assert told(headquarters, "job", Why.GANG_BROKEN)
    assert headquarters.job("job").phase is JobPhase.MIGRATING


def test_a_member_that_cannot_be_started_anywhere_fails_the_gang() -> None:
    headquarters = Headquarters()
    for node in ("alpha", "beta"):
        headquarters.joins(node)
    headquarters.submits("job", a_gang_spec())
    for epoch in (1, 2, 3):
        headquarters.ended(f"job-e{epoch}", EndReason.START_FAILED, detail="no such file")
        headquarters.ended(f"job-r1-e{epoch}", EndReason.STOPPED)
        if epoch < 3:
            headquarters.later(31).hears(TimerFired(key="replan"))
    assert phases(headquarters) == ["failed", "failed"]
    assert "could not be started on 3 nodes: no such file" in told(headquarters, "job", Why.FAILED)[0]


@pytest.mark.parametrize("asked", MEMBERS)
def test_stopping_any_member_stops_all(asked: str) -> None:
    headquarters = a_running_gang()
    assert of_kind(headquarters.stops(asked), StopRun).keys() == set(RUNS)
    headquarters.ended("job-e1", EndReason.STOPPED)
    headquarters.ended("job-r1-e1", EndReason.FINISHED, exit_code=0)
    assert phases(headquarters) == ["cancelled", "cancelled"]


def test_a_waiting_gang_is_told_what_it_waits_for_and_cancelled_whole() -> None:
    headquarters = Headquarters()
    headquarters.submits("job", a_gang_spec())
    [waits] = headquarters.engine.waits_because(headquarters.now_s, JobId("job-r1"))
    assert "0 of its gang's 2 members would have a place now" in waits.sentence()
    assert "no machine is part of this campus now" in waits.sentence()
    headquarters.stops("job-r1")
    assert phases(headquarters) == ["cancelled", "cancelled"]


def test_a_late_word_that_a_lost_member_had_finished_changes_nothing() -> None:
    headquarters = a_running_gang("gamma")
    headquarters.silent("beta")
    headquarters.fires("give_up:job-r1-e1")
    headquarters.ended("job-r1-e1", EndReason.FINISHED, exit_code=0)
    assert headquarters.job("job-r1").phase is JobPhase.MIGRATING


def test_quotas_count_what_all_members_hold() -> None:
    headquarters = Headquarters()
    headquarters.hears(QuotaSet(quota=Quota(id="user:sam", gpus=1, by="ops", set_s=0.0)))
    for node in ("alpha", "beta"):
        headquarters.joins(node)
    decision = headquarters.submits("job", a_gang_spec())
    assert orders(decision) == []
    assert Why.QUOTA_TOO_SMALL in whys(decision, "job")
    live = headquarters.engine.waits_because(headquarters.now_s, JobId("job"))
    assert Why.QUOTA_TOO_SMALL in [reason.why for reason in live]


def a_crowded_campus(**single: Any) -> Headquarters:
    """Three machines with one job each, and a gang of two that has waited for a while."""
    headquarters = Headquarters()
    for number, node in enumerate(("alpha", "beta", "gamma")):
        headquarters.joins(node)
        headquarters.submits(f"single-{number}", a_spec(**single))
        headquarters.started(f"single-{number}-e1")
    headquarters.submits("job", a_gang_spec())
    headquarters.later(GANG_PATIENCE_S + 1)
    return headquarters


def ends(headquarters: Headquarters, job: str) -> Decision:
    run = f"{job}-e{headquarters.job(job).epoch}"
    return headquarters.ended(run, EndReason.FINISHED, exit_code=0)


def test_jobs_behind_a_gang_that_waits_do_not_keep_it_waiting_for_ever() -> None:
    headquarters = a_crowded_campus()
    started: list[str] = []
    for number in range(3):
        headquarters.submits(f"behind-{number}")
    for number in range(3):
        decision = ends(headquarters, f"single-{number}")
        started += [order.job_id for order in of_kind(decision, StartRun).values()]
        headquarters.later(1)
    assert set(started[:2]) <= BOTH | {"behind-0"}
    assert phases(headquarters) == ["starting", "starting"]


def test_a_job_that_is_gone_in_time_may_use_a_machine_kept_for_a_gang() -> None:
    headquarters = a_crowded_campus(expected_s=5000)
    ends(headquarters, "single-0")
    headquarters.submits("long", a_spec(expected_s=10_000))
    assert headquarters.job("long").phase is JobPhase.PENDING
    headquarters.submits("short", a_spec(expected_s=600))
    assert headquarters.job("short").phase is JobPhase.STARTING


def test_lower_classes_make_room_for_all_members_of_a_gang_and_nobody_takes_it_meanwhile() -> None:
    headquarters = Headquarters(policies=LIVE)
    for number, node in enumerate(("alpha", "beta")):
        headquarters.joins(node)
        headquarters.submits(f"low-{number}", a_spec(priority=Priority.LOW))
        headquarters.started(f"low-{number}-e1")
    headquarters.submits("job", a_gang_spec(priority=Priority.HIGH))
    headquarters.submits("other", a_spec(priority=Priority.NORMAL))
    headquarters.later(4000)
    asked = of_kind(headquarters.hears(TimerFired(key="replan")), TakeCheckpoint)
    assert asked.keys() == {"low-0-e1", "low-1-e1"}
    headquarters.durable("low-0-e1-c1", step=9, final=True)
    assert of_kind(headquarters.ended("low-0-e1", EndReason.SAVED, step=9), StartRun) == {}
    headquarters.durable("low-1-e1-c1", step=9, final=True)
    started = of_kind(headquarters.ended("low-1-e1", EndReason.SAVED, step=9), StartRun)
    assert started.keys() == set(RUNS)


def test_nobody_makes_room_for_a_part_of_a_gang() -> None:
    headquarters = Headquarters(policies=LIVE)
    for node, priority in (("alpha", Priority.LOW), ("beta", Priority.HIGH)):
        headquarters.joins(node)
        headquarters.submits(f"on-{node}", a_spec(priority=priority))
        headquarters.started(f"on-{node}-e1")
    headquarters.submits("job", a_gang_spec(priority=Priority.HIGH))
    headquarters.later(4000)
    assert orders(headquarters.hears(TimerFired(key="replan"))) == []


def test_a_gang_is_driven_out_whole_by_a_higher_class() -> None:
    headquarters = Headquarters(policies=LIVE)
    for node in ("alpha", "beta"):
        headquarters.joins(node)
    headquarters.submits("job", a_gang_spec(priority=Priority.LOW))
    for run in RUNS:
        headquarters.started(run)
    headquarters.later(1000).submits("urgent", a_spec(priority=Priority.HIGH))
    headquarters.later(4000)
    decision = headquarters.hears(TimerFired(key="replan"))
    assert of_kind(decision, TakeCheckpoint).keys() == set(RUNS)
    assert "it makes room for a job of a higher class" in str(headquarters.told)


def a_gang_away() -> Headquarters:
    """Both members were driven from the fast `home`, which had room for both, to slow machines."""
    headquarters = Headquarters()
    headquarters.joins("home", facts(gpus=2, speed=4.0))
    headquarters.submits("job", a_gang_spec(expected_s=50_000))
    for run in RUNS:
        headquarters.started(run)
    for node in ("away", "away-too"):
        headquarters.joins(node, facts(speed=1.0))
    headquarters.reported("home", NodeReclaimed(freed_after_s=0, killed=True))
    headquarters.ended("job-e1", EndReason.KILLED_BY_OWNER)
    headquarters.ended("job-r1-e1", EndReason.KILLED_BY_OWNER)
    for run in ("job-e2", "job-r1-e2"):
        headquarters.later(1).started(run)
    return headquarters


def test_a_gang_goes_home_whole_when_that_pays() -> None:
    headquarters = a_gang_away()
    decision = headquarters.reported("home", NodeResumed())
    saves = of_kind(decision, TakeCheckpoint)
    assert saves.keys() == {"job-e2", "job-r1-e2"}
    assert len({order.at_step for order in saves.values()}) == 1
    for run in saves:
        headquarters.durable(f"{run}-c1", step=9, final=True)
        headquarters.ended(run, EndReason.SAVED, step=9)
    assert {headquarters.run(run).node_id for run in ("job-e3", "job-r1-e3")} == {"home"}


def test_a_gang_stays_where_it_is_while_one_home_is_taken() -> None:
    headquarters = a_gang_away()
    headquarters.submits("wide", a_spec(request=Request(gpus=1)))
    decision = headquarters.reported("home", NodeResumed())
    assert of_kind(decision, TakeCheckpoint) == {}
    assert CheckpointId("job-e2-c1") not in headquarters.state.checkpoints


# --- on a machine -----------------------------------------------------------------------------------


def a_member_here(**more: Any) -> LoneAgent:
    agent = LoneAgent(of=replace(facts(gpus=2), parks=True, terms=Terms(park=True)))
    order = a_start(seat=Seat(size=2), restore=CheckpointId("job-e0-c9"), restore_step=9, **more)
    agent.ordered(order)
    agent.hears(GuestStarted(run_id=order.run_id, restored=order.restore, resumed_step=9, restore_s=0.1))
    return agent


def test_a_member_is_asked_to_save_at_a_step_also_by_an_agent_that_was_restarted() -> None:
    agent = a_member_here()
    [asked] = deeds(agent.ordered(a_save_order(at_step=40)))
    assert isinstance(asked, AskToSave)
    assert asked.at_step == 40
    found = GuestFound(run_id=asked.run_id, alive=True, last_step=30)
    assert asked in deeds(agent.hears(AgentStarted(found=(found,))))


def test_what_all_would_go_on_from_is_kept_with_every_save() -> None:
    agent = a_member_here()
    agent.ordered(a_save_order())
    assert agent.guest().keep == "job-e0-c9"
    agent.saves(step=40)
    agent.ships(step=40)
    agent.ordered(a_save_order(number=2, keep=CheckpointId("job-e1-c1")))
    [shipped] = deeds(agent.saves("job-e1-c2", step=50))
    assert isinstance(shipped, ShipCheckpoint)
    assert shipped.keep == "job-e1-c1"


def test_a_member_is_not_parked_since_the_others_would_stand_still_on_their_gpus() -> None:
    agent = a_member_here()
    notice = agent.hears(OwnerReclaimed(notice_s=60, gpus=(0,)))
    assert not any(isinstance(effect, ParkGuest) for effect in notice.effects)
