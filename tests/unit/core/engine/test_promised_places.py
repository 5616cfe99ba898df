"""A place that was promised is kept, is one that can be had, and costs its tenants nothing once it is off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.jobs.job import JobPhase
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.jobs.window import WindowEnd
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.events import CoordinatorStarted
from gpunion.domain.protocol.orders import SetWindow
from gpunion.domain.protocol.reports import NodePaused
from gpunion.domain.reasons.reason import Why
from tests.builders.campus import Campus
from tests.builders.turns import LEAST_S, SHORT, Turns, of
from tests.builders.values import facts, orders


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


def with_a_promise(campus: Turns) -> None:
    campus.joins("a", facts(gpus=2))
    for job in ("t1", "t2"):
        campus.runs(job, of("bob"))
    campus.later(5.0).submits("wide", of("sam", gpus=2, in_windows=False))
    assert ends_of_tenants(campus) == [WindowEnd.PROMISED, WindowEnd.PROMISED]


def ends_of_tenants(campus: Turns) -> list[WindowEnd | None]:
    runs = [campus.run(f"{job}-e1") for job in ("t1", "t2")]
    return [None if run.subjob is None else run.subjob.end for run in runs]


def test_tenants_stay_when_the_job_that_was_promised_their_places_is_stopped() -> None:
    campus = Turns()
    with_a_promise(campus)
    decision = campus.later(2.0).stops("wide")
    assert ends_of_tenants(campus) == [WindowEnd.OPEN, WindowEnd.OPEN]
    told = [order for _, order in orders(decision) if isinstance(order, SetWindow)]
    assert [order.subjob.ends_s for order in told] == [None, None]


def test_tenants_whose_promise_is_off_have_until_their_owner_wants_the_machine() -> None:
    campus = Turns()
    with_a_promise(campus)
    campus.ends_in("a", 4500.0)
    campus.later(2.0).stops("wide")
    assert ends_of_tenants(campus) == [WindowEnd.KNOWN_END, WindowEnd.KNOWN_END]


def test_a_tenant_whose_turn_was_over_stays_when_nobody_comes() -> None:
    campus = Turns()
    campus.joins("a")
    campus.runs("t1", of("bob"))
    campus.submits("job", of("sam"))
    campus.looks_until(campus.now_s + 1.8 * LEAST_S)
    assert campus.promised().keys() == {"job"}
    campus.stops("job")
    subjob = campus.run("t1-e1").subjob
    assert subjob is not None
    assert subjob.end is WindowEnd.OPEN
    assert campus.told[-1][1].why is Why.TURN_KEPT


def test_a_tenant_whose_place_is_promised_to_another_as_well_still_makes_way() -> None:
    campus = Turns()
    campus.joins("a", facts(gpus=2))
    for job in ("t1", "t2"):
        campus.runs(job, of("bob"))
    campus.later(5.0).submits("w1", of("sam", gpus=2, in_windows=False))
    promised = campus.job("w1").promised
    campus.submits("w2", of("ann", gpus=2, in_windows=False))
    campus.engine.state.put(replace(campus.job("w2"), promised=promised))
    campus.later(2.0).stops("w1")
    assert ends_of_tenants(campus) == [WindowEnd.PROMISED, WindowEnd.PROMISED]


def test_a_tenant_whose_hard_end_has_passed_or_who_leaves_anyway_gets_no_other_window() -> None:
    campus = Turns()
    with_a_promise(campus)
    campus.reported("a", NodePaused())
    assert ends_of_tenants(campus) == [WindowEnd.PROMISED, WindowEnd.PROMISED]
    campus = Turns()
    with_a_promise(campus)
    campus.later(400.0).stops("wide")
    assert ends_of_tenants(campus) == [WindowEnd.PROMISED, WindowEnd.PROMISED]
    campus = Turns()
    with_a_promise(campus)
    campus.stops("t1")
    campus.stops("wide")
    assert ends_of_tenants(campus) == [WindowEnd.PROMISED, WindowEnd.OPEN]
