"""Jobs that do not fit yet: told why, looked at again, placed when something changes."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.jobs.job import Avoidance, JobPhase, Priority
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.effects import SetTimer
from gpunion.domain.protocol.reports import NodePaused, NodeResumed
from gpunion.domain.protocol.timers import ReplanDue
from gpunion.domain.reasons.reason import Verdict, Why, because
from gpunion.engine.coordinator.planning.refusals import blockers
from tests.builders import TIMING, Headquarters, a_spec, facts, orders, whys


def test_a_job_that_finds_no_room_waits_and_says_what_stands_in_its_way() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits("first")
    decision = headquarters.submits("second")
    assert headquarters.job("second").phase is JobPhase.PENDING
    waiting = next(reason for reason in decision.reasons if reason.why is Why.WAITING)
    assert waiting.sentence() == "waiting: 1 machine: 0 of its GPUs are free, 1 is needed"


def test_a_job_on_an_empty_campus_waits_for_the_first_node() -> None:
    headquarters = Headquarters()
    decision = headquarters.submits()
    assert [reason.sentence() for reason in decision.reasons] == [
        "accepted from sam",
        "waiting: no machine is part of this campus now",
    ]
    assert [node for node, _ in orders(headquarters.joins("alpha"))] == ["alpha"]


def test_waiting_is_told_once_and_not_again_at_every_look() -> None:
    headquarters = Headquarters()
    headquarters.submits()
    assert whys(headquarters.fires("replan")) == []


def test_jobs_that_come_at_one_moment_are_each_told_once_why_they_wait() -> None:
    headquarters = Headquarters()
    asking_alike, asking_else = a_spec(gpus=2), a_spec(gpus=4)
    specs = {"a": asking_alike, "b": asking_else, "c": asking_alike, "d": asking_alike}
    decisions = [headquarters.submits(name, spec) for name, spec in specs.items()]
    told = [[reason.subject for reason in d.reasons if reason.why is Why.WAITING] for d in decisions]
    assert told == [["a"], ["b"], ["c"], ["d"]]


def test_a_waiting_job_is_looked_at_again_and_again() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    headquarters.ended("job-e1", EndReason.REFUSED, why=Why.GPU_BUSY)
    decision = headquarters.fires("replan")
    again_s = headquarters.now_s + TIMING.replan_s
    assert decision.effects == (SetTimer(timer=ReplanDue(), at_s=again_s),)


def test_a_node_that_refused_is_asked_again_when_the_refusal_has_worn_off() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    headquarters.ended("job-e1", EndReason.REFUSED, why=Why.GPU_BUSY)
    assert headquarters.job().avoid == (
        Avoidance(node_id=headquarters.node().id, until_s=headquarters.now_s + TIMING.avoid_s),
    )
    headquarters.fires("replan")
    assert headquarters.job().phase is JobPhase.MIGRATING
    headquarters.fires("replan")
    assert headquarters.job().phase is JobPhase.STARTING
    assert headquarters.job().epoch == 2


def test_nobody_looks_again_when_nobody_waits() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.submits()
    headquarters.started()
    assert headquarters.timer_at("replan") is None


def test_a_paused_node_gets_nobody_new_until_its_owner_resumes() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    assert whys(headquarters.reported("alpha", NodePaused())) == [Why.NODE_PAUSED]
    headquarters.submits()
    assert headquarters.job().phase is JobPhase.PENDING
    assert whys(headquarters.reported("alpha", NodeResumed())) == [Why.NODE_BACK, Why.PLACED]


def test_room_that_comes_free_goes_to_the_highest_priority_first() -> None:
    headquarters = Headquarters()
    headquarters.submits("low", a_spec(priority=Priority.LOW))
    headquarters.later(1).submits("high", a_spec(priority=Priority.HIGH))
    headquarters.joins("alpha")
    assert headquarters.job("high").phase is JobPhase.STARTING
    assert headquarters.job("low").phase is JobPhase.PENDING


def test_a_small_job_may_pass_a_big_one_that_does_not_fit() -> None:
    headquarters = Headquarters()
    headquarters.submits("big", a_spec(gpus=4, priority=Priority.HIGH))
    headquarters.submits("small", a_spec(gpus=1))
    headquarters.submits("another", a_spec(gpus=4))
    headquarters.joins("alpha", facts(gpus=2))
    assert headquarters.job("small").phase is JobPhase.STARTING
    assert headquarters.job("big").phase is headquarters.job("another").phase is JobPhase.PENDING


def test_every_node_gives_its_verdict_on_a_waiting_job() -> None:
    headquarters = Headquarters()
    headquarters.joins("alpha")
    headquarters.joins("beta")
    headquarters.submits("first")
    headquarters.reported("beta", NodePaused())
    headquarters.reported("alpha", NodePaused())
    headquarters.submits("second")
    verdicts = headquarters.engine.explain(headquarters.now_s, headquarters.job("second").id)
    assert {verdict.node: verdict.refusal and verdict.refusal.why for verdict in verdicts} == {
        "alpha": Why.NODE_PAUSED,
        "beta": Why.NODE_PAUSED,
    }


def test_a_node_that_would_do_stands_in_nobody_s_way() -> None:
    assert blockers([Verdict(node="alpha")]) == "no machine is part of this campus now"


def test_what_can_pass_is_named_before_what_stays_and_nobody_is_left_out_in_silence() -> None:
    models = ("A100", "H100", "RTX3090", "RTX4090")
    others = [Verdict(node=model, refusal=because(model, Why.WRONG_MODEL, models=model)) for model in models]
    full = Verdict(node="delta", refusal=because("delta", Why.DISK_SHORT_THERE))
    assert blockers([*others, full]) == (
        "1 machine: its disk has no room for another guest; its owner is told; "
        "1 machine: its GPUs (A100) are not of a wanted model; "
        "1 machine: its GPUs (H100) are not of a wanted model; "
        "2 more say no for other reasons"
    )


def test_who_keeps_checkpoints_elsewhere_does_not_answer_for_who_does_not() -> None:
    headquarters = Headquarters()
    headquarters.joins("near", replace(facts(), places=("nas",)))
    headquarters.joins("far")
    for name in ("first", "second"):
        headquarters.later(1).submits(name)
        headquarters.started(f"{name}-e1")
    headquarters.later(1).submits("picky", a_spec(places=("nas",)))
    headquarters.later(1).submits("easy", a_spec())
    on_far = next(name for name in ("first", "second") if headquarters.run(f"{name}-e1").node_id == "far")
    headquarters.later(10).ended(f"{on_far}-e1", EndReason.FINISHED)
    assert headquarters.job("picky").phase is JobPhase.PENDING
    assert headquarters.job("easy").phase is JobPhase.STARTING
