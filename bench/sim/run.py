"""How long the simulator takes for two months of the reference campus: 54 machines, owners, our policies.

Needs no trace: owners and jobs are drawn.
CPU seconds are what a machine of its own would take; the wall clock is of this one, now.

    python bench/sim/run.py [DAYS]
"""

from __future__ import annotations

import sys
import time

from gpunion.lab.evaluation.contenders import OURS
from gpunion.lab.evaluation.sweep import run_contender
from gpunion.lab.reference.everyday import everyday_campus

WANTED_S = 90.0
DAYS = 60.0


def main() -> None:
    days = float(sys.argv[1]) if len(sys.argv) > 1 else DAYS
    began_s = time.process_time()
    campus = everyday_campus(days)
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


if __name__ == "__main__":
    main()
