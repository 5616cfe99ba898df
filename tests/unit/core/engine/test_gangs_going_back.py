"""A common save that is of no use to one member: all go back to the one before, and are told why."""

from __future__ import annotations

import pytest

from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.jobs.migration import Cause
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.decision import Decision
from gpunion.domain.protocol.orders import StartRun, TakeCheckpoint
from gpunion.domain.protocol.reports import NodeReclaimed
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.runs.retry_limits import AT_MOST, Trouble
from tests.builders import Headquarters
from tests.builders.gangs import MEMBERS, RUNS, a_running_gang, of_kind, phases, saved_together, told

GOES_BACK_MOST = AT_MOST[Trouble.SAVE_USELESS]


def save_round(headquarters: Headquarters, step: int, number: int) -> Decision:
    asked = headquarters.fires("checkpoint:job-e1")
    saved_together(headquarters, step, number=number)
    return asked


def interrupted(saves: int) -> Headquarters:
    """Both members have saved at steps 10, 20 and so on; then an owner came back, and both start again."""
    headquarters = a_running_gang("gamma")
    for number in range(1, saves + 1):
        save_round(headquarters, 10 * number, number)
    headquarters.reported("beta", NodeReclaimed(freed_after_s=0, killed=True))
    headquarters.ended("job-r1-e1", EndReason.KILLED_BY_OWNER, step=10 * saves)
    headquarters.ended("job-e1", EndReason.STOPPED, step=10 * saves)
    return headquarters


def killed_and_resumed(saves: int) -> Headquarters:
    """Both members have just been given what they saved last."""
    headquarters = interrupted(saves)
    resumed(headquarters, epoch=2, step=10 * saves, saved=saves)
    return headquarters


def resumed(headquarters: Headquarters, *, epoch: int, step: int, saved: int) -> None:
    for member in MEMBERS:
        headquarters.started(f"{member}-e{epoch}", step=step, restored=f"{member}-e1-c{saved}")


def one_fails(headquarters: Headquarters, epoch: int, step: int) -> Decision:
    """The second member's program, at once; the first is told to stop for it."""
    headquarters.ended(f"job-r1-e{epoch}", EndReason.FAILED, step=step, exit_code=1)
    return headquarters.ended(f"job-e{epoch}", EndReason.STOPPED, step=step)


def durable_steps(headquarters: Headquarters) -> list[int]:
    return [job.durable.step for job in map(headquarters.job, MEMBERS) if job.durable is not None]


def test_all_members_go_on_from_the_common_save_before_the_one_that_a_member_could_not_read() -> None:
    headquarters = killed_and_resumed(saves=3)
    starts = of_kind(one_fails(headquarters, 2, 30), StartRun)
    assert {run: (one.restore, one.restore_step, one.spoiled, one.keep) for run, one in starts.items()} == {
        "job-e3": ("job-e1-c2", 20, ("job-e1-c3",), "job-e1-c1"),
        "job-r1-e3": ("job-r1-e1-c2", 20, ("job-r1-e1-c3",), "job-r1-e1-c1"),
    }
    sentence = (
        "member 1 could not go on from what all had saved at step 30 "
        "(exit code 1; see its log: gpunion logs job-r1); all 2 members go on from the save before, step 20"
    )
    assert [told(headquarters, one, Why.GANG_GOES_BACK) for one in MEMBERS] == [[sentence], [sentence]]
    resumed(headquarters, epoch=3, step=20, saved=2)
    assert phases(headquarters) == ["running", "running"]
    moves = [headquarters.state.migrations[f"{one}-m2"].cause for one in MEMBERS]  # type: ignore[index]
    assert moves == [Cause.GANG, Cause.SPOILED_SAVE]


def test_the_last_saves_that_all_have_are_kept_by_every_vault_and_no_more() -> None:
    headquarters = a_running_gang()
    kept = []
    for number in range(1, 6):
        asked = of_kind(save_round(headquarters, 10 * number, number), TakeCheckpoint)
        kept.append([asked[run].keep for run in RUNS])
    firsts = [None, 1, 1, 1, 2]
    assert kept == [[number and f"{run}-c{number}" for run in RUNS] for number in firsts]
    assert [len(headquarters.job(one).earlier) for one in MEMBERS] == [GOES_BACK_MOST] * 2


def test_a_gang_that_fails_with_every_save_fails_and_the_save_is_named() -> None:
    headquarters = killed_and_resumed(saves=5)
    for back in range(GOES_BACK_MOST):
        one_fails(headquarters, 2 + back, 50 - 10 * back)
        resumed(headquarters, epoch=3 + back, step=40 - 10 * back, saved=4 - back)
    one_fails(headquarters, 4, 30)
    assert phases(headquarters) == ["failed", "failed"]
    detail = (
        "exit code 1; see its log: gpunion logs job-r1; it had just been given job-r1-e1-c3, which it saved "
        "at step 30, and all members had gone back 2 times in a row for that already"
    )
    assert told(headquarters, "job-r1", Why.FAILED) == [f"failed: {detail}"]
    assert told(headquarters, "job", Why.FAILED) == [f"failed: member 1 of its gang failed: {detail}"]


def test_with_no_earlier_common_save_all_fail_and_do_not_begin_anew() -> None:
    headquarters = killed_and_resumed(saves=1)
    one_fails(headquarters, 2, 10)
    assert phases(headquarters) == ["failed", "failed"]
    assert told(headquarters, "job-r1", Why.FAILED)[0].endswith(
        "job-r1-e1-c1, which it saved at step 10, and no earlier save of all members is left"
    )


def test_a_new_common_save_forgives_and_what_was_of_no_use_is_never_gone_back_to() -> None:
    headquarters = killed_and_resumed(saves=3)
    one_fails(headquarters, 2, 30)
    resumed(headquarters, epoch=3, step=20, saved=2)
    assert headquarters.job("job").went_back == 1
    headquarters.fires("checkpoint:job-e3")
    for run in ("job-e3", "job-r1-e3"):
        headquarters.durable(f"{run}-c1", step=30)  # the same step once more, and another save
    jobs: list[Job] = [headquarters.job(one) for one in MEMBERS]
    assert [job.went_back for job in jobs] == [0, 0]
    assert [point.checkpoint_id for point in jobs[0].earlier] == ["job-e1-c1", "job-e1-c2"]
    assert durable_steps(headquarters) == [30, 30]


@pytest.mark.parametrize("how", ["a step", "a save", "another program's end"])
def test_who_has_got_on_since_blames_no_save(how: str) -> None:
    headquarters = killed_and_resumed(saves=3)
    if how == "a save":
        headquarters.fires("checkpoint:job-e2")
        headquarters.durable("job-r1-e2-c1", step=30)
    step = 31 if how == "a step" else 30
    code = 0 if how == "another program's end" else 1
    headquarters.ended("job-r1-e2", EndReason.FAILED, step=step, exit_code=code)
    headquarters.ended("job-e2", EndReason.STOPPED, step=30)
    assert phases(headquarters) == ["failed", "failed"]


def test_a_program_that_broke_because_another_machine_died_blames_no_save() -> None:
    headquarters = killed_and_resumed(saves=3)
    headquarters.ended("job-r1-e2", EndReason.FAILED, step=30, exit_code=1)
    node = headquarters.run("job-e2").node_id
    headquarters.reported(node, NodeReclaimed(freed_after_s=0, killed=True))
    headquarters.ended("job-e2", EndReason.KILLED_BY_OWNER, step=30)
    assert durable_steps(headquarters) == [30, 30]
    assert {headquarters.job(one).phase for one in MEMBERS} <= {JobPhase.MIGRATING, JobPhase.STARTING}


def cannot_read(headquarters: Headquarters, member: str, epoch: int, saved: int) -> Decision:
    return headquarters.ended(
        f"{member}-e{epoch}",
        EndReason.START_FAILED,
        why=Why.SAVE_UNREADABLE,
        detail=f"no checkpoint of {member} can be read ({member}-e1-c{saved}: block 00ff is damaged)",
    )


def test_blocks_of_one_members_save_that_cannot_be_read_send_all_back_once() -> None:
    headquarters = interrupted(saves=3)
    headquarters.started("job-e2", step=30, restored="job-e1-c3")
    cannot_read(headquarters, "job-r1", 2, 3)
    assert durable_steps(headquarters) == [20, 20]
    assert (
        "what member 1 had saved at step 30 could not be read (no checkpoint of job-r1"
        in (told(headquarters, "job", Why.GANG_SAVE_UNREADABLE)[0])
    )
    starts = of_kind(headquarters.ended("job-e2", EndReason.STOPPED, step=30), StartRun)
    assert {one.restore for one in starts.values()} == {"job-e1-c2", "job-r1-e1-c2"}
    assert headquarters.job("job-r1").avoid == ()  # its machine is not to blame


@pytest.mark.parametrize(
    ("why", "because"),
    [
        (Why.SAVE_UNREADABLE, "it could not go on from what was saved"),
        (None, "it could not be started there"),
    ],
)
def test_the_others_are_told_what_kept_a_member_from_starting_again_and_not_why_it_had_to_go_before(
    why: Why | None, because: str
) -> None:
    headquarters = interrupted(saves=3)
    headquarters.started("job-e2", step=30, restored="job-e1-c3")
    node = headquarters.run("job-r1-e2").node_id
    headquarters.ended("job-r1-e2", EndReason.START_FAILED, why=why, detail="no such block")
    assert told(headquarters, "job", Why.GANG_STOPS)[-1].startswith(
        f"member 1 is gone from {node}: {because}"
    )


def test_two_members_that_cannot_read_one_round_go_back_by_one() -> None:
    headquarters = interrupted(saves=3)
    cannot_read(headquarters, "job-r1", 2, 3)
    starts = of_kind(cannot_read(headquarters, "job", 2, 3), StartRun)
    assert {one.restore_step for one in starts.values()} == {20}
    assert headquarters.job("job").went_back == 1


def test_with_nothing_earlier_a_save_that_cannot_be_read_is_tried_on_other_machines_and_named() -> None:
    headquarters = interrupted(saves=1)
    for epoch in (2, 3, 4):
        cannot_read(headquarters, "job-r1", epoch, 1)
        headquarters.ended(f"job-e{epoch}", EndReason.STOPPED, step=10)
        if epoch < 4:
            headquarters.later(61).fires("replan")
    assert phases(headquarters) == ["failed", "failed"]
    assert "job-r1-e1-c1: block 00ff is damaged" in told(headquarters, "job", Why.FAILED)[0]
    assert durable_steps(headquarters) == [10, 10]  # nobody began anew
