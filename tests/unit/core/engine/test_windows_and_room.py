"""Who runs in windows and makes room for a job of a higher class, and what is left of its window then."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import RunId
from gpunion.domain.jobs.job import JobSpec, Priority
from gpunion.domain.jobs.run import RunPhase
from gpunion.domain.jobs.window import WindowEnd
from gpunion.domain.nodes.terms import Terms
from gpunion.domain.protocol.timers import TurnOver
from gpunion.policy.policies import LIVE
from gpunion.policy.windows.policy import WindowPolicy
from gpunion.policy.windows.turns import TurnBounds
from tests.builders.campus import Campus
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
    campus.advance(200.0)
    campus.stops("wide")
    campus.advance(10.0)
    campus.submits("urgent", a_spec(priority=Priority.HIGH))
    campus.advance(2.0)
    runs = campus.station.engine.state.runs
    [stands] = [run for run in runs.values() if run.gave_place]
    assert stands.subjob is not None
    assert stands.subjob.hard
    assert stands.subjob.ends_s is not None
    campus.advance(stands.subjob.ends_s + 60.0 - campus.now_s)
    assert runs[stands.id].living
    campus.stops("urgent")
    campus.advance(120.0)
    run = runs[stands.id]
    assert (run.phase, run.parking) == (RunPhase.RUNNING, False)
    assert run.subjob is not None
    assert run.subjob.ends_s is None
    [guest] = [one for one in machine.station.engine.state.guests.values() if one.run_id == run.id]
    assert guest.subjob == run.subjob
    assert guest.parking is None
