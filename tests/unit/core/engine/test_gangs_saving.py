"""What the members of a gang save counts once all have saved the same step, and that is waited for."""

from __future__ import annotations

import pytest

from gpunion.domain.ids import RunId, own_checkpoint_id
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.orders import StartRun, StopRun, TakeCheckpoint
from gpunion.domain.protocol.reports import NodeReclaimed, NoticeGiven
from gpunion.domain.reasons.reason import Why
from tests.builders import Headquarters, facts, orders, timers_of
from tests.builders.gangs import MEMBERS, RUNS, a_gang_spec, a_running_gang, of_kind, told


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


def test_a_member_that_cannot_save_is_stopped_and_what_all_had_before_counts() -> None:
    headquarters = a_running_gang("gamma")
    headquarters.reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 60))
    decision = headquarters.not_saved("job-r1-e1-c1", CheckpointTrouble.NOT_ANSWERED)
    assert of_kind(decision, StopRun).keys() == {"job-r1-e1"}
    headquarters.ended("job-r1-e1", EndReason.STOPPED)
    headquarters.durable("job-e1-c1", step=50, final=True)
    started = of_kind(headquarters.ended("job-e1", EndReason.SAVED, step=50), StartRun)
    assert {order.restore for order in started.values()} == {None}


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
