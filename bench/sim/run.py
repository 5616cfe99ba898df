"""How long the simulator takes for two months of the reference campus: 54 machines, owners, our policies.

Needs no trace: owners come about once a day, more by day than by night, as those of the public demand do;
jobs are of the lengths of Philly's quantiles.
CPU seconds are what a machine of its own would take; the wall clock is of this one, now.

    python bench/sim/run.py [DAYS]
"""

from __future__ import annotations

import random
import sys
import time

from gpunion.policy.hazard.week import DAY_S
from gpunion.sim.reference.absences import Absence, OwnerTrace
from gpunion.sim.reference.scenario import Setting, Traces, reference_campus
from gpunion.sim.reference.work import Shape
from gpunion.sim.report.contenders import OURS
from gpunion.sim.report.sweep import run_contender

WANTED_S = 60.0
DAYS = 60.0
UNITS = 18
# Seconds of work at quantiles of Philly's jobs that run for ten minutes or more, cut at a day.
LENGTHS_S = (700.0, 1_100.0, 1_700.0, 2_400.0, 3_400.0, 4_900.0, 9_000.0, 21_000.0, 60_000.0, 86_400.0)


def main() -> None:
    days = float(sys.argv[1]) if len(sys.argv) > 1 else DAYS
    draw = random.Random(1)
    traces = Traces(owners=owners(days, draw), shapes=shapes(draw))
    began_s = time.process_time()
    campus = reference_campus(traces, Setting(seed=1, horizon_s=days * DAY_S))
    built_s = time.process_time() - began_s
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    figures = run_contender(OURS, campus)
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    departures = sum(len(of_node) for of_node in campus.to_come.values())
    print(f"54 nodes, {days:g} days, {len(campus.scenario.jobs)} jobs, {departures} departures")
    print(f"{figures['jobs_done']:.0f} jobs done, {figures['interruptions']:.0f} interruptions")
    print(f"built in {built_s:.1f} s of CPU; simulated in {cpu_s:.1f} s of CPU, {wall_s:.1f} s by the clock")
    scaled_s = cpu_s * DAYS / days
    verdict = "reached" if scaled_s <= WANTED_S else "NOT reached"
    print(f"wanted at most {WANTED_S:.0f} s for {DAYS:g} days: {scaled_s:.0f} s of CPU, {verdict}")


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


if __name__ == "__main__":
    main()
