"""Who runs in windows and makes room for a job of a higher class, and what is left of its window then."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import RunId
from gpunion.domain.jobs.job import JobSpec, Priority
from gpunion.domain.jobs.window import WindowEnd
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
