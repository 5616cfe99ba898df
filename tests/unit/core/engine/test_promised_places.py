"""A place that was promised is kept, is one that can be had, and costs its tenants nothing once it is off."""

from __future__ import annotations

import pytest

from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.events import CoordinatorStarted
from gpunion.domain.reasons.reason import Why
from tests.builders.campus import Campus
from tests.builders.turns import LEAST_S, SHORT, Turns, of
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


def ends_450_s_after(campus: Turns, *, notice_s: float) -> None:
    campus.joins("a", facts(gpus=2, terms=Terms(notice_s=notice_s)))
    campus.ends_in("a", 450.0)
    for job in ("t1", "t2"):
        campus.runs(job, of("bob"))
    campus.later(20.0)


@pytest.mark.parametrize(("notice_s", "is_promised"), [(300.0, False), (60.0, True)])
def test_nothing_is_promised_where_its_owner_will_want_the_machine_before_anybody_could_come(
    notice_s: float, is_promised: bool
) -> None:
    campus = Turns()
    ends_450_s_after(campus, notice_s=notice_s)
    campus.submits("wide", of("sam", gpus=2, in_windows=False))
    assert (campus.promised() != {}) == is_promised


@pytest.mark.parametrize(("notice_s", "makes_way"), [(240.0, False), (60.0, True)])
def test_no_tenant_makes_way_for_who_could_not_come_any_more(notice_s: float, makes_way: bool) -> None:
    campus = Turns()
    ends_450_s_after(campus, notice_s=notice_s)
    campus.submits("job", of("sam"))
    campus.looks_until(campus.now_s + 1.8 * LEAST_S)
    assert (campus.promised() != {}) == makes_way
