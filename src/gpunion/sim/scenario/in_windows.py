"""Random campuses with jobs that run in windows, more of them than there is room for."""

from __future__ import annotations

import random
from dataclasses import replace

from gpunion.domain.ids import JobId
from gpunion.domain.jobs.job import JobSpec, WindowWish
from gpunion.domain.resources import GIB, MIB, Request
from gpunion.sim.scenario.values import JobPlan, OwnerAct, OwnerPlan, Program, Scenario

WINDOWS_SHARE = 0.6  # of the campuses
ATOMIZABLE_SHARE = 0.3  # of the other jobs there
WINDOW_TURN_S = (5.0, 20.0)  # of all turns there


def with_windows(draw: random.Random, scenario: Scenario) -> Scenario:
    """Some jobs run in windows, more of them than there is room for, and some owners say when they come."""
    heal_s = scenario.troubles.heal_s
    if draw.random() >= WINDOWS_SHARE or heal_s is None:
        return scenario
    jobs = [_maybe_in_windows(draw, job) for job in scenario.jobs]
    for number in range(draw.randint(1, 8)):
        seconds = draw.uniform(20.0, 150.0)
        gpus = draw.choice((1, 1, 1, 2))
        spec = JobSpec(
            name=f"piece-{number}",
            command=("train",),
            owner=f"windows-{draw.randrange(3)}",
            request=Request(gpus=gpus, memory_bytes=GIB),
            expected_s=draw.choice((None, seconds, seconds / 4)),
            atomizable=True,
            windows=WindowWish(shortest_s=draw.choice((None, None, 5.0, 10000.0))),
        )
        program = Program(
            steps=max(1, int(seconds)),
            step_s=1.0,
            capture_s=draw.choice((0.1, 1.0, 4.0)),
            state_bytes=16 * MIB,
            delta_bytes=MIB,
            answers_saves=draw.random() > 0.15,
            heeds_windows=draw.random() > 0.3,
            leaves_after_final=draw.random() > 0.2,
            heeds_term=draw.random() > 0.2,
        )
        plan = JobPlan(id=JobId(f"piece-{number}"), spec=spec, program=program)
        stop_s = draw.uniform(0.2, 1.0) * heal_s if draw.random() < 0.1 else None
        jobs.append(replace(plan, submit_s=draw.uniform(0.0, 0.7) * heal_s, stop_s=stop_s))
    owners = tuple(_who_foretells(draw, owner, heal_s) for owner in scenario.owners)
    return replace(scenario, jobs=tuple(jobs), owners=owners)


def _maybe_in_windows(draw: random.Random, job: JobPlan) -> JobPlan:
    asks = draw.random() < ATOMIZABLE_SHARE and job.spec.seat is None and job.spec.request.gpus > 0
    return replace(job, spec=replace(job.spec, atomizable=True)) if asks else job


def _who_foretells(draw: random.Random, owner: OwnerPlan, heal_s: float) -> OwnerPlan:
    """Now and then that they come soon, and some time later that nobody can say any more."""
    acts = list(owner.acts)
    for _ in range(draw.randint(0, 3)):
        at_s = draw.uniform(0.1, 0.8) * heal_s
        acts.append(OwnerAct(at_s=at_s, do="foretell", notice_s=draw.uniform(10.0, 120.0)))
        acts.append(OwnerAct(at_s=at_s + draw.uniform(60.0, 200.0), do="foretell"))
    return replace(owner, acts=tuple(sorted(acts, key=lambda act: act.at_s)))
