"""Members that tell no steps: what all saved when all were asked is what they go on from."""

from __future__ import annotations

from gpunion.domain.ids import RunId, own_checkpoint_id
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.orders import StartRun, TakeCheckpoint
from gpunion.domain.protocol.reports import NodeReclaimed, NoticeGiven
from tests.builders import Headquarters
from tests.builders.gangs import MEMBERS, RUNS, a_running_gang, of_kind, saved_together


def durable_saves(headquarters: Headquarters) -> list[str | None]:
    points = [headquarters.job(one).durable for one in MEMBERS]
    return [None if point is None else point.checkpoint_id for point in points]


def a_gang_after(rounds: int, *nodes: str) -> Headquarters:
    headquarters = a_running_gang(*nodes)
    for number in range(1, rounds + 1):
        headquarters.later(60).fires("checkpoint:job-e1")
        saved_together(headquarters, step=0, number=number)
    return headquarters


def test_every_round_of_saves_that_all_have_is_the_new_common_one_and_older_ones_may_go() -> None:
    headquarters = a_gang_after(5)
    assert durable_saves(headquarters) == ["job-e1-c5", "job-r1-e1-c5"]
    asked = of_kind(headquarters.later(60).fires("checkpoint:job-e1"), TakeCheckpoint)
    assert {order.keep for order in asked.values()} == {"job-e1-c3", "job-r1-e1-c3"}


def test_after_a_loss_all_go_on_from_the_newest_round_that_all_have() -> None:
    headquarters = a_gang_after(2, "gamma")
    headquarters.later(60).fires("checkpoint:job-e1")
    headquarters.durable("job-e1-c3", step=0)
    assert durable_saves(headquarters) == ["job-e1-c2", "job-r1-e1-c2"]
    headquarters.not_saved("job-r1-e1-c3", CheckpointTrouble.NOT_ANSWERED)
    headquarters.reported("beta", NodeReclaimed(freed_after_s=0, killed=True))
    headquarters.ended("job-r1-e1", EndReason.KILLED_BY_OWNER)
    started = of_kind(headquarters.ended("job-e1", EndReason.STOPPED), StartRun)
    assert {order.restore for order in started.values()} == {"job-e1-c2", "job-r1-e1-c2"}
    for run in started:
        headquarters.later(1).started(run, restored=started[run].restore)
    headquarters.later(60).fires("checkpoint:job-e2")
    for run in started:
        headquarters.durable(f"{run}-c1", step=0)
    assert durable_saves(headquarters) == ["job-e2-c1", "job-r1-e2-c1"]


def test_saves_that_were_asked_for_at_different_moments_never_belong_together() -> None:
    headquarters = a_running_gang()
    headquarters.fires("checkpoint:job-e1")
    headquarters.durable("job-e1-c1", step=0)
    headquarters.not_saved("job-r1-e1-c1", CheckpointTrouble.NOT_ANSWERED)
    headquarters.later(60).fires("checkpoint:job-e1")
    headquarters.not_saved("job-e1-c2", CheckpointTrouble.NOT_ANSWERED)
    headquarters.durable("job-r1-e1-c2", step=0)
    assert durable_saves(headquarters) == [None, None]


def test_what_machines_had_saved_by_themselves_without_a_step_belongs_to_nothing() -> None:
    headquarters = a_gang_after(1)
    for run in RUNS:
        headquarters.durable(own_checkpoint_id(RunId(run), 1), step=0, final=True)
    assert durable_saves(headquarters) == ["job-e1-c1", "job-r1-e1-c1"]


def test_the_last_saves_of_a_notice_are_waited_for_and_gone_on_from() -> None:
    headquarters = a_gang_after(2, "gamma")
    headquarters.later(60).reported("alpha", NoticeGiven(deadline_s=headquarters.now_s + 120))
    for run in RUNS:
        headquarters.captured(f"{run}-c3", step=0)
        headquarters.ended(run, EndReason.SAVED)
    headquarters.durable("job-e1-c3", step=0, final=True)
    started = of_kind(headquarters.durable("job-r1-e1-c3", step=0, final=True), StartRun)
    assert {order.restore for order in started.values()} == {"job-e1-c3", "job-r1-e1-c3"}


def test_a_round_that_is_of_no_use_to_one_is_left_alone_by_all() -> None:
    headquarters = a_gang_after(3, "gamma")
    headquarters.reported("beta", NodeReclaimed(freed_after_s=0, killed=True))
    headquarters.ended("job-r1-e1", EndReason.KILLED_BY_OWNER)
    started = of_kind(headquarters.ended("job-e1", EndReason.STOPPED), StartRun)
    for run in started:
        headquarters.later(1).started(run, restored=started[run].restore)
    headquarters.ended("job-e2", EndReason.FAILED, exit_code=1)
    again = of_kind(headquarters.ended("job-r1-e2", EndReason.STOPPED), StartRun)
    assert {order.restore for order in again.values()} == {"job-e1-c2", "job-r1-e1-c2"}
