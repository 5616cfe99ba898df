"""A job is handed in: placed with a reason, made to wait, or refused because no node could ever run it."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import JobId, NodeId, RunId
from gpunion.domain.jobs.account import Account, Charge
from gpunion.domain.jobs.job import CheckpointWish, Job, JobPhase
from gpunion.domain.jobs.run import EndReason, RunPhase
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.effects import SendOrder, SetTimer
from gpunion.domain.protocol.events import CoordinatorStarted, JobSubmitted, TimerFired
from gpunion.domain.protocol.timers import coordinator_timer
from gpunion.domain.reasons.reason import Why
from gpunion.domain.resources import GIB, Request
from gpunion.domain.system_tier import UNTRIED, Tier
from tests.builders import TIMING, Headquarters, a_grant, a_run, a_spec, a_start, facts, orders, whys


def test_a_job_that_fits_is_placed_at_once_and_told_why_there() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    decision = headquarters.submits()
    charge = Charge(user="sam", lab="students", lender="alpha", gpus=1, pace=1.0)
    run = a_run(
        "job-e1", phase=RunPhase.ORDERED, grant=a_grant(0), ordered_s=headquarters.now_s, charge=charge
    )
    job = Job(
        id=headquarters.job().id,
        spec=a_spec(),
        phase=JobPhase.STARTING,
        submitted_s=headquarters.now_s,
        waiting_since_s=headquarters.now_s,
        epoch=1,
    )
    now_s = headquarters.now_s
    assert decision.changes == (
        job,
        run,
        Account(id="user:sam", as_of_s=now_s, using=1.0, held_gpus=1),
        Account(id="lab:students", as_of_s=now_s, using=1.0, held_gpus=1),
        Account(id="lab:alpha", as_of_s=now_s, lending=1.0),
    )
    assert decision.effects == (
        SendOrder(node_id=NodeId("alpha"), order=a_start("job-e1")),
        SetTimer(timer=coordinator_timer("start:job-e1"), at_s=headquarters.now_s + TIMING.start_timeout_s),
    )
    assert [reason.sentence() for reason in decision.reasons] == [
        "accepted from sam",
        "placed on alpha (run 1 of it): best of the free ones (card, speed 1, 0 GPUs left over)",
    ]


def test_a_job_no_node_could_ever_run_is_refused_with_a_verdict_of_each() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.joins("beta", facts(gpus=4, terms=Terms(deny_labs=("students",))))
    decision = headquarters.submits(gpus=4)
    assert decision.changes == ()
    assert [(reason.subject, reason.why) for reason in decision.reasons] == [
        ("job", Why.IMPOSSIBLE),
        ("alpha", Why.TOO_FEW_GPUS),
        ("beta", Why.LAB_NOT_ADMITTED),
    ]
    assert "1 machine: it has 1 GPU, 4 are needed" in decision.reasons[0].sentence()


def test_a_job_to_be_saved_whole_is_turned_away_where_no_machine_could_ever_do_that() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    whole = a_spec(checkpoint=CheckpointWish(tier=Tier.SYSTEM))
    assert whys(headquarters.submits(spec=whole)) == [Why.IMPOSSIBLE, Why.CANNOT_DUMP]
    headquarters.joins("beta", replace(facts(), system=UNTRIED))
    assert whys(headquarters.submits(spec=whole), "job") == [Why.SUBMITTED, Why.WAITING]


def test_whether_a_job_would_be_accepted_can_be_asked_without_handing_it_in() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    engine, id = headquarters.engine, JobId("later")
    possible = JobSubmitted(job_id=id, spec=a_spec())
    assert engine.turns_away(headquarters.now_s, possible) == ()
    too_large = JobSubmitted(job_id=id, spec=a_spec(request=Request(gpus=4)))
    reasons = engine.turns_away(headquarters.now_s, too_large)
    assert [reason.why for reason in reasons] == [Why.IMPOSSIBLE, Why.TOO_FEW_GPUS]
    assert id not in headquarters.state.jobs


def test_a_job_that_only_a_busy_node_could_run_is_accepted() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=4))
    headquarters.joins("beta")
    headquarters.submits("first", gpus=4)
    assert Why.SUBMITTED in whys(headquarters.submits("second", gpus=4))


def test_a_job_handed_in_twice_is_one_job() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    assert headquarters.submits(gpus=7).empty


def test_no_more_than_three_different_refusals_are_listed() -> None:
    headquarters = Headquarters()
    for index in range(4):
        headquarters.joins(f"node{index}", facts(memory_gib=1 + index))
    decision = headquarters.submits(
        spec=a_spec(request=Request(gpus=1, memory_bytes=100 * GIB)),
    )
    assert decision.reasons[0].sentence().count("machine: ") == 3


def test_a_job_that_needs_no_gpu_takes_none() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    decision = headquarters.submits(gpus=0)
    assert len(orders(decision)) == 1
    assert headquarters.run().grant.gpu_indices == ()
    assert "no GPU needed" in decision.reasons[-1].sentence()


def test_two_jobs_share_a_node_without_sharing_a_gpu() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=2))
    headquarters.submits("one")
    headquarters.submits("two")
    assert [headquarters.run(f"{job}-e1").grant.gpu_indices for job in ("one", "two")] == [(0,), (1,)]


def test_the_owner_s_cap_on_memory_counts_not_what_the_machine_has() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha", facts(gpus=2, memory_gib=64, terms=Terms(memory_bytes=3 * GIB // 2)))
    headquarters.submits("one")
    headquarters.submits("two")
    assert headquarters.job("two").phase is JobPhase.PENDING
    assert "512 MiB of its memory are free" in headquarters.told[-1][1].sentence()


def test_a_coordinator_that_starts_looks_at_everybody_who_waits() -> None:
    headquarters = Headquarters()
    headquarters.submits()
    assert headquarters.later(1).hears(CoordinatorStarted()).empty
    again = headquarters.restarts()
    again.joins("alpha")
    assert again.job().phase is JobPhase.STARTING


def test_an_order_that_is_neither_obeyed_nor_refused_is_taken_back_in_the_end() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    decision = headquarters.fires("start:job-e1")
    [(node, order)] = orders(decision)
    assert (node, type(order).__name__, order.run_id) == ("alpha", "StopRun", "job-e1")


def test_a_start_that_hangs_counts_as_a_start_that_failed() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    headquarters.fires("start:job-e1")
    decision = headquarters.ended("job-e1", EndReason.STOPPED)
    assert decision.reasons[0].sentence() == "could not start on alpha: it did not start in time"
    assert headquarters.job().start_failures == 1
    assert headquarters.job().phase is JobPhase.MIGRATING


def test_the_start_timer_of_a_run_that_started_says_nothing() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    headquarters.started()
    assert headquarters.timer_at("start:job-e1") is None
    assert headquarters.hears(TimerFired(timer=coordinator_timer("start:job-e1"))).empty
    assert headquarters.hears(TimerFired(timer=coordinator_timer("start:nobody-e1"))).empty


def test_progress_is_believed_of_living_runs_only() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    headquarters.engine.note_progress(RunId("job-e1"), 5, 0.1)
    headquarters.engine.note_progress(RunId("stranger-e1"), 5, 0.1)
    assert headquarters.state.progress == {"job-e1": (5, 0.1)}
