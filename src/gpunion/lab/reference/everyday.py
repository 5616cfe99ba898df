"""The reference campus without any trace: owners and jobs drawn from a seed, for comparing and timing.

Owners come about once a day, more by day than by night, as those of the public demand do; jobs are of the
lengths of Philly's quantiles.
"""

from __future__ import annotations

import random

from gpunion.lab.calm.world import CalmWorld
from gpunion.lab.reference.absences import Absence, OwnerTrace
from gpunion.lab.reference.campus import MachineKind
from gpunion.lab.reference.scenario import LOAD, Campus, Setting, Traces, reference_campus
from gpunion.lab.reference.work import Shape
from gpunion.policy.policies import LIVE
from gpunion.sim.behaviour.digest import Behaviour, BehaviourWatch
from gpunion.sim.scenario.values import DAY_S, Scenario

# The load of each run whose behaviour is recorded: as on the reference campus, and with long queues.
RECORDED_LOADS = {"campus": LOAD, "queued-campus": 1.6}
UNITS = 18
FEW = (
    MachineKind(count=2, gpus=1, model="RTX 3090", vram_gib=24, speed=1.0, edge_gbps=1),
    MachineKind(count=1, gpus=2, model="RTX 4090", vram_gib=24, speed=1.62, edge_gbps=1),
    MachineKind(count=1, gpus=4, model="RTX A6000", vram_gib=48, speed=1.16, edge_gbps=10),
)
# Seconds of work at quantiles of Philly's jobs that run for ten minutes or more, cut at a day.
LENGTHS_S = (700.0, 1_100.0, 1_700.0, 2_400.0, 3_400.0, 4_900.0, 9_000.0, 21_000.0, 60_000.0, 86_400.0)


def everyday_campus(days: float, load: float = LOAD, seed: int = 1) -> Campus:
    draw = random.Random(seed)
    traces = Traces(owners=owners(days, draw), shapes=shapes(draw))
    return reference_campus(traces, Setting(seed=seed, horizon_s=days * DAY_S, load=load))


def few_machines(days: float, load: float, seed: int) -> Scenario:
    """Four machines with eight cards: small enough for a month of long queues."""
    draw = random.Random(seed)
    traces = Traces(owners=owners(days, draw), shapes=shapes(draw))
    setting = Setting(seed=seed, horizon_s=days * DAY_S, load=load, kinds=FEW)
    return reference_campus(traces, setting).scenario


def everyday_behaviour(load: float, days: float = 2.0) -> Behaviour:
    """Many machines and jobs at once, and queues: what the small random campuses have least of."""
    world = CalmWorld(everyday_campus(days, load).scenario, LIVE)
    watch = BehaviourWatch(world)
    world.watch(watch)
    world.run()
    jobs = len(world.scenario.jobs)
    return watch.behaviour(jobs=jobs, moves=0, troubles=world.tally.counts, keep_lines=False)


def owners(days: float, draw: random.Random) -> OwnerTrace:
    """A record twice as long as what is simulated: the first half is there to be learned from."""
    length_s = 2.1 * days * DAY_S
    units = {}
    for number in range(UNITS):
        absences, at_s = [], 0.0
        while at_s < length_s:
            by_day = 8 <= (at_s % DAY_S) / 3600 < 20
            at_s += draw.expovariate(1 / (12 * 3600.0 if by_day else 36 * 3600.0))
            away_s = draw.expovariate(1 / (18 * 3600.0))
            absences.append(Absence(at_s, at_s + away_s))
            at_s += away_s
        units[f"unit-{number}"] = tuple(absences)
    return OwnerTrace(from_s=0.0, to_s=length_s, units=units)


def shapes(draw: random.Random) -> tuple[Shape, ...]:
    return tuple(
        Shape(in_week_s=draw.uniform(0, 7 * DAY_S), seconds=seconds, gpus=gpus)
        for seconds in LENGTHS_S
        for gpus in (1, 1, 1, 1, 1, 1, 1, 2, 4)
    )
