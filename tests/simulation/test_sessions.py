"""Sessions on random campuses full of trouble: jobs like any other, that end when nobody works in them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpunion.domain.jobs.session import Session, SessionKind
from gpunion.domain.protocol.commit import Commit
from gpunion.domain.reasons.reason import Why
from gpunion.engine.coordinator.pure_coordinator import PureCoordinator
from gpunion.engine.coordinator.sessions import Here, reach
from gpunion.sim.observer import Watch
from gpunion.sim.run import run_scenario
from gpunion.sim.scenario.generate import random_scenario
from gpunion.sim.scenario.values import JobPlan

pytestmark = pytest.mark.no_cover

IDLE_END_S = 240.0


class OfSessions(Watch):
    """What was said of them, and whether whoever asks for one is ever sent to a run that is none."""

    def __init__(self) -> None:
        self.told: set[Why] = set()
        self.wrong: list[str] = []

    def coordinator_committed(self, commit: Commit, station: PureCoordinator) -> None:
        self.told |= {reason.why for reason in commit.decision.reasons}
        state = station.engine.state
        for job in state.jobs.values():
            if job.spec.session is None:
                continue
            found = reach(state, job)
            if isinstance(found, Here):
                run = state.runs[found.run_id]
                if not run.living or run.epoch != job.epoch or run.node_id != found.node_id or run.parking:
                    self.wrong.append(f"{job.id} is sought at {found}")


def as_session(plan: JobPlan, number: int) -> JobPlan:
    if plan.spec.seat is not None or number % 2:
        return plan
    session = Session(kind=SessionKind.NOTEBOOK, idle_end_s=IDLE_END_S)
    return replace(plan, spec=replace(plan.spec, name=f"session-{number}", session=session))


def test_sessions_break_no_invariant_and_those_nobody_works_in_end() -> None:
    watch = OfSessions()
    for seed in range(12):
        scenario = random_scenario(seed)
        jobs = tuple(as_session(plan, number) for number, plan in enumerate(scenario.jobs))
        outcome = run_scenario(replace(scenario, jobs=jobs), prepare=lambda world: world.watch(watch))
        assert (seed, outcome.violations) == (seed, ())
    assert watch.wrong == []
    assert {Why.SESSION_IDLE, Why.SESSION_IDLE_END} <= watch.told
