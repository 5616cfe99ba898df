"""A machine is believed about its own runs and nothing else, whatever kind of message it sends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpunion.domain.ids import CheckpointId, JobId, RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.trust import NodeMisled
from gpunion.domain.protocol.frames import Finishing, Heartbeat, Preparing, Progress, SaveNote
from gpunion.domain.protocol.orders import StopRun
from gpunion.domain.protocol.reports import (
    CheckpointCaptured,
    CheckpointDurable,
    CheckpointFailed,
    GuestAskedToGo,
    NodePaused,
    NodeReclaimed,
    NodeResumed,
    NoticeGiven,
    OutputArrived,
    Report,
    RunEnded,
    RunNotParked,
    RunParked,
    RunStarted,
    RunUnparked,
    StateStaged,
)
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator import message_checks
from tests.builders import Headquarters, a_spec, facts, orders, whys

MINE, OTHERS = "mine-e1", "others-e1"


def two_jobs() -> Headquarters:
    """`mine` runs on alpha, `others` on beta."""
    campus = Headquarters()
    for job, node in (("mine", "alpha"), ("others", "beta")):
        campus.joins(node, facts(gpus=1))
        campus.submits(job, a_spec(gpus=1))
        campus.started(f"{job}-e1")
        assert campus.run(f"{job}-e1").node_id == node
    return campus


def reports_of(run: str, job: str, epoch: int) -> list[Report]:
    """One of each kind that names a run."""
    of: dict[str, Any] = {"run_id": RunId(run), "job_id": JobId(job), "epoch": epoch}
    save, out = CheckpointId(f"{run}-c1"), CheckpointId(f"{run}-output")
    return [
        RunStarted(**of, restored=None, resumed_step=0, restore_s=1.0),
        *(RunEnded(**of, reason=reason, last_step=1) for reason in EndReason),
        CheckpointCaptured(**of, checkpoint_id=save, step=1, progress=0.1, stall_s=1.0),
        CheckpointDurable(
            **of,
            checkpoint_id=save,
            step=10**12,
            progress=0.1,
            size_bytes=1,
            shipped_bytes=1,
            final=False,
        ),
        *(CheckpointFailed(**of, checkpoint_id=save, trouble=trouble) for trouble in CheckpointTrouble),
        RunParked(**of, moved_bytes=1, took_s=1.0),
        RunNotParked(**of, detail="no room"),
        RunUnparked(**of, parked_s=1.0, took_s=1.0),
        GuestAskedToGo(**of, deadline_s=1.0),
        OutputArrived(**of, output=out),
    ]


@pytest.mark.parametrize(
    ("run", "job", "epoch", "because"),
    [
        (OTHERS, "others", 1, "others-e1 is a run of beta"),
        (MINE, "others", 1, "mine-e1 is not a run of 'others'"),
        (MINE, "mine", 2, "mine-e1 is not of epoch 2"),
        ("no-such-run", "others", 1, "there is no run 'no-such-run'"),
        ("others-e0", "others", 0, "there is no run 'others-e0'"),
        ("../../etc", "others", 1, "there is no run '../../etc'"),
    ],
)
def test_what_a_machine_says_of_a_run_that_is_not_its_own_changes_nothing(
    run: str, job: str, epoch: int, because: str
) -> None:
    campus = two_jobs()
    for report in reports_of(run, job, epoch):
        decision = campus.reported("alpha", report)
        assert decision.changes == ()
        assert [order for _, order in orders(decision) if not isinstance(order, StopRun)] == []
        [reason] = decision.reasons
        assert (reason.subject, reason.why) == ("alpha", Why.REPORT_REFUSED)
        assert reason.sentence() == f"a report of alpha ({type(report).__name__}) changed nothing: {because}"
    assert [campus.job(job).phase for job in ("mine", "others")] == [JobPhase.RUNNING] * 2


def test_a_run_that_nobody_ordered_is_stopped_on_the_machine_that_says_it_has_it() -> None:
    campus = two_jobs()
    of: dict[str, Any] = {"run_id": RunId("others-e7"), "job_id": JobId("others"), "epoch": 7}
    decision = campus.reported("alpha", RunStarted(**of, restored=None, resumed_step=0, restore_s=1.0))
    assert orders(decision) == [("alpha", StopRun(**of))]


@pytest.mark.parametrize("named", ["others-e1-c1", "mine-e1-output", "mine-e1", "mine-e1-c", "mine-e1-c1/x"])
def test_a_checkpoint_is_of_the_run_that_saved_it(named: str) -> None:
    campus = two_jobs()
    of: dict[str, Any] = {
        "run_id": RunId(MINE),
        "job_id": JobId("mine"),
        "epoch": 1,
        "checkpoint_id": CheckpointId(named),
    }
    for report in (
        CheckpointCaptured(**of, step=1, progress=0.1, stall_s=1.0),
        CheckpointFailed(**of, trouble=CheckpointTrouble.NOT_SAVED),
        CheckpointDurable(**of, step=9, progress=0.1, size_bytes=1, shipped_bytes=1, final=False),
    ):
        decision = campus.reported("alpha", report)
        assert (decision.changes, whys(decision)) == ((), [Why.REPORT_REFUSED])


@pytest.mark.parametrize("named", ["others-e1-output", "mine-e1-c1", "mine-e2-output"])
def test_an_output_is_of_the_run_that_made_it(named: str) -> None:
    campus = two_jobs()
    of: dict[str, Any] = {"run_id": RunId(MINE), "job_id": JobId("mine"), "epoch": 1}
    lie = RunEnded(**of, reason=EndReason.FINISHED, last_step=1, output=CheckpointId(named))
    decision = campus.reported("alpha", lie)
    assert (decision.changes, whys(decision)) == ((), [Why.REPORT_REFUSED])


def test_nothing_is_restored_from_another_jobs_checkpoint() -> None:
    campus = Headquarters()
    campus.joins("alpha", facts(gpus=1))
    campus.submits("mine", a_spec(gpus=1))
    decision = campus.started(MINE, step=5, restored="others-e1-c1")
    assert (decision.changes, whys(decision)) == ((), [Why.REPORT_REFUSED])
    assert whys(campus.started(MINE, step=5, restored="mine-e1-c1")) == [Why.RESUMED]


@pytest.mark.parametrize(
    "copy",
    [
        StateStaged(
            job_id=JobId("others"), epoch=1, checkpoint_id=CheckpointId("mine-e1-c1"), fetched_bytes=1
        ),
    ],
)
def test_a_copy_is_of_a_checkpoint_of_its_job(copy: StateStaged) -> None:
    decision = two_jobs().reported("alpha", copy)
    assert (decision.changes, whys(decision)) == ((), [Why.REPORT_REFUSED])


@pytest.mark.parametrize(
    "word",
    [
        NoticeGiven(deadline_s=900.0, gpus=(0, 7)),
        NoticeGiven(deadline_s=900.0, gpus=(0,), parking=(RunId(OTHERS),)),
        NodeReclaimed(freed_after_s=1.0, gpus=(7,)),
        NodePaused(gpus=(7,)),
        NodeResumed(gpus=(-1,)),
    ],
)
def test_an_owner_has_a_word_about_the_gpus_and_guests_of_the_own_machine(word: Report) -> None:
    decision = two_jobs().reported("alpha", word)
    assert (decision.changes, whys(decision)) == ((), [Why.REPORT_REFUSED])


def test_a_gpu_that_is_gone_is_still_spoken_of_while_a_guest_holds_it() -> None:
    campus = two_jobs()
    campus.joins("alpha", facts(gpus=0))
    decision = campus.reported("alpha", NoticeGiven(deadline_s=campus.now_s + 60, gpus=(0,)))
    assert Why.REPORT_REFUSED not in whys(decision)
    assert campus.node().withheld[0].index == 0


def test_late_news_of_the_own_runs_is_no_refusal() -> None:
    campus = two_jobs()
    campus.ended(MINE, EndReason.FINISHED, step=9)
    for report in reports_of(MINE, "mine", 1):
        assert message_checks.of_report(campus.state, campus.node().id, report) is None
        assert campus.reported("alpha", report).changes == () or isinstance(report, OutputArrived)


def test_of_a_heartbeat_only_what_is_said_of_the_own_runs_is_taken() -> None:
    campus = two_jobs()
    alpha = campus.node().id

    def saying(run: str) -> Heartbeat:
        id = RunId(run)
        save = SaveNote(run_id=id, checkpoint_id=CheckpointId(f"{run}-c1"), stage="asked")
        return Heartbeat(
            sent_s=1.0,
            ack=0,
            progress=(Progress(run_id=id, step=999_999, progress=1.0),),
            preparing=(Preparing(run_id=id, what="its image"),),
            saves=(save,),
            finishing=(Finishing(run_id=id),),
        )

    mine, others = saying(MINE), saying(OTHERS)
    assert message_checks.of_heartbeat(campus.state, alpha, mine) == (mine, None)
    taken, refusal = message_checks.of_heartbeat(campus.state, alpha, others)
    assert taken == Heartbeat(sent_s=1.0, ack=0)
    assert refusal is not None
    assert refusal.because == "others-e1 is a run of beta"
    both = replace(mine, progress=mine.progress + others.progress)
    assert message_checks.of_heartbeat(campus.state, alpha, both)[0] == mine


def test_of_a_hello_only_the_own_guests_are_heard() -> None:
    campus = two_jobs()
    told = (RunId(OTHERS), RunId(MINE), RunId("later-e3"))
    assert message_checks.own_guests(campus.state, campus.node().id, told) == (MINE,)


@pytest.mark.parametrize(
    ("run", "job", "epoch", "counts"),
    [
        ("later-e1", "later", 1, False),  # of a job handed in after the backup
        ("mine-e2", "mine", 2, False),  # of a run begun after it
        ("mine-e0", "mine", 0, True),
        ("no-such-run", "mine", 1, True),
        (OTHERS, "others", 1, True),
    ],
)
def test_a_run_that_a_coordinator_from_a_backup_may_have_forgotten_is_nobodys_lie(
    run: str, job: str, epoch: int, counts: bool
) -> None:
    campus = two_jobs()
    report = RunParked(run_id=RunId(run), job_id=JobId(job), epoch=epoch, moved_bytes=0, took_s=0.0)
    refusal = message_checks.of_report(campus.state, campus.node().id, report)
    assert refusal is not None
    assert refusal.counts is counts


def test_nobody_is_told_of_what_may_have_been_forgotten() -> None:
    campus = two_jobs()
    for report in reports_of("later-e1", "later", 1):
        decision = campus.reported("alpha", report)
        if isinstance(report, RunStarted):  # it is answered with an order, so it counts
            assert whys(decision) == [Why.REPORT_REFUSED]
        else:
            assert decision.empty
    copy = CheckpointId("later-e1-c1")
    staged = StateStaged(job_id=JobId("later"), epoch=1, checkpoint_id=copy, fetched_bytes=1)
    assert campus.reported("alpha", staged).empty


def test_an_isolated_machine_is_given_no_orders_about_runs_that_nobody_knows() -> None:
    campus = two_jobs()
    campus.hears(NodeMisled(node_id=campus.node().id, because="it lied"))
    of: dict[str, Any] = {"run_id": RunId("later-e1"), "job_id": JobId("later"), "epoch": 1}
    assert campus.reported("alpha", RunStarted(**of, restored=None, resumed_step=0, restore_s=1.0)).empty
