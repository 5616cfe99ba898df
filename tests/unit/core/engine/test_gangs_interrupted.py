"""When one member of a gang is interrupted, all are, and all go on from one step."""

from __future__ import annotations

from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.run import EndReason, RunPhase
from gpunion.domain.protocol.orders import StartRun, StopRun, TakeCheckpoint
from gpunion.domain.protocol.reports import NodeReclaimed, NoticeGiven
from gpunion.domain.reasons.reason import Why
from tests.builders import Headquarters, orders
from tests.builders.gangs import RUNS, a_gang_spec, a_running_gang, of_kind, phases, saved_together, told


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
