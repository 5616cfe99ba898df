"""Is what `gpunion usage plan` says of an unchanged campus what was recorded of it?

    python bench/plan/run.py                                  # one seed, ten days: a minute
    python bench/plan/run.py --days 30 --seeds 1,2,3,4,5      # as published: an hour and a half

A small campus is simulated, recorded as a coordinator records a real one, and the record run again. The waits
of both are compared, and the GPU-seconds that `gpunion usage` tells with those that the simulator counted.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

from gpunion.lab.reference.everyday import few_machines
from gpunion.lab.replay.again import waits_again
from gpunion.lab.replay.recording import record
from gpunion.sim.scenario.values import Scenario


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--days", type=float, default=10.0)
    parser.add_argument("--loads", default="2", help="work over what is lent, at the reference card's speed")
    parser.add_argument("--figures", default="full,sums", help="what all owners say of theirs")
    parser.add_argument("--seeds", default="1")
    asked = parser.parse_args()
    print(
        "load  seed  figures   jobs  median wait  again     off  never ran  again  used: told/true    CPU s"
    )
    for load in map(float, asked.loads.split(",")):
        for seed in map(int, asked.seeds.split(",")):
            for figures in asked.figures.split(","):
                print(row(few_machines(asked.days, load, seed), load, figures), flush=True)


def row(scenario: Scenario, load: float, figures: str) -> str:
    began_s = time.process_time()
    month = record(scenario, figures=figures)
    waited_s = median(month.past.waits_s())
    again = waits_again(month.past, month.past.machines, seed=1)
    never = sum(job.waited_s is None for job in month.past.jobs)
    off = again.median_s / waited_s - 1.0 if waited_s else 0.0
    told = month.usage["used_gpu_h"] * 3600.0 / month.true_used_gpu_s
    return (
        f"{load:4g}  {scenario.seed:4}  {figures:7}  {len(scenario.jobs):5}  {waited_s / 3600:9.2f} h"
        f"  {again.median_s / 3600:5.2f} h  {off:+5.1%}  {never:9}  {again.never_ran:5}"
        f"  {told:15.5f}  {time.process_time() - began_s:7.0f}"
    )


if __name__ == "__main__":
    main()
