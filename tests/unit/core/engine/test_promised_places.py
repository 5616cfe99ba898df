"""A place that was promised is kept, is one that can be had, and costs its tenants nothing once it is off."""

from __future__ import annotations

from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.events import CoordinatorStarted
from gpunion.domain.reasons.reason import Why
from tests.builders.campus import Campus
from tests.builders.turns import SHORT, Turns, of
from tests.builders.values import facts


def a_campus_with_a_promise() -> Campus:
    campus = Campus(policies=SHORT)
    campus.adds("a", facts(gpus=2, lab=""))
    for job in ("t1", "t2"):
        campus.submits(job, of("bob"))
    campus.advance(20.0)
    campus.submits("wide", of("sam", gpus=2, in_windows=False))
    assert campus.job("wide").promised is not None
    return campus


def test_a_promise_outlives_a_restart_of_the_coordinator() -> None:
    campus = a_campus_with_a_promise()
    promised = campus.job("wide").promised
    assert promised is not None
    campus.advance(20.0)
    campus.falls()
    campus.advance(0.5)
    campus.rises()
    campus.advance(3.0)
    assert campus.job("wide").promised == promised
    campus.advance(promised.by_s - campus.now_s + 10.0)
    assert campus.job("wide").phase is JobPhase.RUNNING
    assert Why.PROMISE_DROPPED not in campus.whys("wide")


def test_a_promise_on_a_machine_that_went_while_the_coordinator_was_away_is_given_up() -> None:
    campus = Turns()
    campus.joins("a", facts(gpus=2))
    for job in ("t1", "t2"):
        campus.runs(job, of("bob"))
    campus.later(5.0).submits("wide", of("sam", gpus=2, in_windows=False))
    campus.hears(CoordinatorStarted())
    assert campus.promised().keys() == {"wide"}
    for job in ("t1", "t2"):
        campus.ended(f"{job}-e1", EndReason.SAVED, step=5, saved_for=EndReason.WINDOW)
    assert campus.job("wide").phase is JobPhase.PENDING, "nobody knows yet that its machine is there"
    campus.silent("a")
    assert campus.promised() == {}
