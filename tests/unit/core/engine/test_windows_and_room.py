"""Who runs in windows and makes room for a job of a higher class, and what is left of its window then."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import JobId, RunId
from gpunion.domain.jobs.job import JobPhase, JobSpec, Priority
from gpunion.domain.jobs.run import EndReason, RunPhase
from gpunion.domain.jobs.window import WindowEnd
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.nodes.withheld import HoldCause
from gpunion.domain.protocol.events import JobStopAsked, TimerFired
from gpunion.domain.protocol.reports import DepartureForetold, NoticeGiven
from gpunion.domain.protocol.timers import PieceOverdue, TurnOver
from gpunion.policy.policies import LIVE
from gpunion.policy.windows.policy import WindowPolicy
from gpunion.policy.windows.turns import TurnBounds
from tests.builders.campus import Campus
from tests.builders.headquarters import Headquarters
from tests.builders.values import a_spec, facts

BOUNDS = TurnBounds(least_s=60.0, most_s=120.0)
POLICIES = replace(LIVE, learning=None, windows=WindowPolicy(bounds=BOUNDS), high_gpus_a_user=5)


def in_windows(owner: str, *, priority: Priority = Priority.LOW, gpus: int = 1) -> JobSpec:
    spec = a_spec(priority=priority, gpus=gpus)
    return replace(spec, owner=owner, lab="", atomizable=True)


def test_a_tenant_that_could_make_no_room_when_its_turn_was_over_has_another_turn() -> None:
    campus = Campus(policies=POLICIES)
    machine = campus.adds("alpha", facts(lab=""))
    campus.submits("tenant", in_windows("bob"))
    campus.advance(1.0)
    campus.submits("other", in_windows("ann"))
    machine.answers = False
    [turn_s] = [at_s for timer, at_s in campus.station.timers.items() if timer == TurnOver()]
    campus.advance(turn_s - campus.now_s - 0.5)
    campus.submits("urgent", a_spec(priority=Priority.HIGH))
    campus.advance(200.0)
    campus.stops("urgent")
    subjob = campus.station.engine.state.runs[RunId("tenant-e1")].subjob
    assert subjob is not None
    assert subjob.end is WindowEnd.OPEN
    machine.answers = True
    campus.advance(300.0)
    assert campus.job("other").epoch > 0  # it has had its turn


def test_who_stands_still_is_not_ended_by_its_window_and_has_a_new_one_when_it_goes_on() -> None:
    longer = TurnBounds(least_s=600.0, most_s=3600.0)
    campus = Campus(policies=replace(POLICIES, windows=WindowPolicy(bounds=longer)))
    terms = Terms(park=True)
    machine = campus.adds("alpha", replace(facts(gpus=2, lab="", terms=terms), parks=True))
    machine.parks = True
    for tenant in ("one", "two"):
        campus.submits(tenant, in_windows("bob"))
    campus.advance(20.0)
    campus.submits("wide", replace(in_windows("ann", gpus=2), atomizable=False))
    campus.advance(210.0)
    campus.submits("urgent", a_spec(priority=Priority.HIGH))
    campus.advance(2.0)
    runs = campus.station.engine.state.runs
    [stands] = [run for run in runs.values() if run.gave_place]
    assert stands.subjob is not None
    assert stands.subjob.hard
    assert stands.subjob.ends_s is not None
    campus.advance(stands.subjob.ends_s + 60.0 - campus.now_s)
    assert runs[stands.id].living
    campus.stops("wide")
    campus.stops("urgent")
    campus.advance(120.0)
    run = runs[stands.id]
    assert (run.phase, run.parking) == (RunPhase.RUNNING, False)
    assert run.subjob is not None
    assert run.subjob.ends_s is None
    [guest] = [one for one in machine.station.engine.state.guests.values() if one.run_id == run.id]
    assert guest.subjob == run.subjob
    assert guest.parking is None


def two_at_work(*, first: Priority) -> Headquarters:
    """One in windows on alpha, and one of class low that runs in none on beta."""
    headquarters = Headquarters(policies=POLICIES)
    headquarters.joins("alpha", facts(lab=""))
    headquarters.submits("first", in_windows("sam", priority=first))
    headquarters.later(1).started("first-e1")
    headquarters.joins("beta", facts(lab=""))
    headquarters.submits("low", replace(in_windows("bob"), atomizable=False))
    headquarters.later(1).started("low-e1")
    return headquarters


def makes_room(headquarters: Headquarters) -> list[tuple[str, str | None]]:
    return [(one.job_id, one.room_for) for one in headquarters.state.migrations.values()]


def test_nobody_makes_room_for_one_whose_last_save_is_on_its_way() -> None:
    headquarters = two_at_work(first=Priority.HIGH)
    headquarters.later(700.0).reported(
        "alpha", DepartureForetold(at_s=headquarters.now_s + 100.0, because="calendar")
    )
    headquarters.captured("first-e1-a1", step=10)
    headquarters.ended("first-e1", EndReason.SAVED, step=10, saved_for=EndReason.WINDOW)
    deadline_s = headquarters.now_s + 60.0
    headquarters.reported("alpha", NoticeGiven(deadline_s=deadline_s, gpus=(), cause=HoldCause.TERMS))
    assert headquarters.job("first").awaits == "first-e1-a1"
    assert makes_room(headquarters) == []
    headquarters.later(5.0).durable("first-e1-a1", step=10, final=True)
    assert makes_room(headquarters) == [("low", "first")]


def test_nobody_makes_room_for_one_that_was_promised_the_place_of_a_tenant_whose_turn_is_over() -> None:
    headquarters = two_at_work(first=Priority.HIGH)
    headquarters.later(300.0).submits("urgent", in_windows("ann", priority=Priority.HIGH))
    assert headquarters.job("urgent").promised is not None
    assert makes_room(headquarters) == []


def test_one_that_is_promised_several_gpus_in_an_hour_does_not_wait_for_them() -> None:
    longer = TurnBounds(least_s=3600.0, most_s=3600.0)
    policies = replace(POLICIES, windows=WindowPolicy(bounds=longer))
    headquarters = Headquarters(policies=policies)
    headquarters.joins("alpha", facts(gpus=2, lab=""))
    for tenant in ("one", "two"):
        headquarters.submits(tenant, in_windows("bob"))
        headquarters.later(1).started(f"{tenant}-e1")
    headquarters.later(700.0)
    wide = replace(in_windows("ann", priority=Priority.HIGH, gpus=2), atomizable=False)
    headquarters.submits("wide", wide)
    assert headquarters.job("wide").promised is not None
    assert sorted(makes_room(headquarters)) == [("one", "wide"), ("two", "wide")]


def test_room_that_is_made_for_an_urgent_job_is_not_kept_for_one_of_a_lower_class() -> None:
    headquarters = Headquarters(policies=POLICIES)
    headquarters.joins("alpha", facts(lab=""))
    headquarters.submits("tenant", in_windows("bob"))
    headquarters.started("tenant-e1")
    headquarters.submits("other", in_windows("ann"))
    headquarters.now_s = headquarters.timers.at(TurnOver()) or 0.0
    headquarters.hears(TimerFired(timer=TurnOver()))
    assert headquarters.job("other").promised is not None
    headquarters.later(1).submits("urgent", a_spec(priority=Priority.HIGH))
    assert headquarters.job("other").promised is None
    [migration] = headquarters.state.migrations.values()
    headquarters.later(2).captured(str(migration.flush), step=7)
    headquarters.ended("tenant-e1", EndReason.SAVED, step=7)
    assert headquarters.job("urgent").phase is JobPhase.STARTING
    assert headquarters.job("other").phase is JobPhase.PENDING


def test_nobody_is_driven_out_of_a_place_that_is_promised_to_one_of_the_same_class() -> None:
    headquarters = Headquarters(policies=POLICIES)
    headquarters.joins("alpha", facts(lab=""))
    headquarters.submits("tenant", in_windows("bob"))
    headquarters.started("tenant-e1")
    headquarters.submits("other", in_windows("ann"))
    headquarters.now_s = headquarters.timers.at(TurnOver()) or 0.0
    headquarters.hears(TimerFired(timer=TurnOver()))
    promised = headquarters.job("other")
    headquarters.state.put(replace(promised, spec=replace(promised.spec, priority=Priority.HIGH)))
    headquarters.later(1).submits("urgent", a_spec(priority=Priority.HIGH))
    assert headquarters.job("other").promised is not None
    assert makes_room(headquarters) == []


def test_of_one_that_was_stopped_between_two_windows_nobody_tells_that_it_goes_on() -> None:
    headquarters = Headquarters(policies=POLICIES)
    headquarters.joins("alpha")
    headquarters.submits("job", in_windows("sam"))
    headquarters.later(1).started("job-e1")
    headquarters.later(50).captured("job-e1-a1", step=5)
    headquarters.ended("job-e1", EndReason.SAVED, step=5, saved_for=EndReason.WINDOW)
    headquarters.later(1).hears(JobStopAsked(job_id=JobId("job")))
    before = len(headquarters.told)
    overdue = PieceOverdue(run_id=RunId("job-e1"))
    headquarters.now_s = headquarters.timers.at(overdue) or 0.0
    headquarters.hears(TimerFired(timer=overdue))
    assert headquarters.told[before:] == []
    assert (headquarters.job().phase, headquarters.job().awaits) == (JobPhase.CANCELLED, None)
