"""What does each scheduling bundle do to waits and utilisation?

    python bench/bundles/run.py [--days 3] [--load 1.6] [--seeds 1,2]

The reference campus of 54 machines with owners and jobs drawn from a seed. Of the jobs two in five are one
user's, the others belong to 39; a third has a deadline; one in ten is of class high, two in ten of class low.
All bundles get the same campuses. A wait goes from a job's submission to its first instruction; of who never
began it lasts to the end.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from gpunion.domain.ids import JobId
from gpunion.domain.jobs.job import JobPhase, Priority
from gpunion.lab.calm.world import CalmWorld
from gpunion.lab.reference.everyday import everyday_campus
from gpunion.policy.policies import BUNDLES, FOR_OPERATORS, Policies
from gpunion.sim.gpu_seconds import Ledger
from gpunion.sim.observer import Watch
from gpunion.sim.program.box import Box
from gpunion.sim.scenario.values import JobPlan, Scenario

GREEDY, GREEDY_SHARE = "greedy", 0.4
DEADLINE_SHARE, DEADLINE_TIMES, DEADLINE_MORE_S = 1 / 3, 3.0, 2 * 3600.0
HIGH_SHARE, LOW_SHARE = 0.1, 0.2
WIDE_GPUS = 4


class Begins(Watch):
    def __init__(self, now_s: Callable[[], float]) -> None:
        self.first_s: dict[JobId, float] = {}
        self._now_s = now_s

    def guest_began(self, box: Box) -> None:
        self.first_s.setdefault(box.job_id, self._now_s())


@dataclass
class Figures:
    waits: dict[str, list[float]] = field(default_factory=dict)
    in_time: int = 0
    to_be_in_time: int = 0
    done: int = 0
    jobs: int = 0
    used_gpu_s: float = 0.0
    lent_gpu_s: float = 0.0

    def waited(self, of: str, seconds: float) -> None:
        self.waits.setdefault(of, []).append(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--days", type=float, default=3.0)
    parser.add_argument("--load", type=float, default=1.6)
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--bundles", default=",".join(bundle.name for bundle in FOR_OPERATORS))
    asked = parser.parse_args()
    print("| bundle | median wait | 90 % wait less than | class high | the greedy user | others | 4 GPUs |"
          " in time | done | GPUs in use |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|")
    for bundle in map(BUNDLES.__getitem__, asked.bundles.split(",")):
        found = Figures()
        for seed in map(int, asked.seeds.split(",")):
            add(found, a_campus(asked.days, asked.load, seed), bundle)
        print(row(bundle.name, found), flush=True)


def a_campus(days: float, load: float, seed: int) -> Scenario:
    scenario = everyday_campus(days, load, seed).scenario
    draw = random.Random(seed)
    return replace(scenario, jobs=tuple(a_job(job, draw) for job in scenario.jobs))


def a_job(plan: JobPlan, draw: random.Random) -> JobPlan:
    expected_s = plan.spec.expected_s or 0.0
    chance = draw.random()
    priority = Priority.NORMAL
    if chance < HIGH_SHARE:
        priority = Priority.HIGH
    elif chance < HIGH_SHARE + LOW_SHARE:
        priority = Priority.LOW
    within_s = DEADLINE_TIMES * expected_s + DEADLINE_MORE_S if draw.random() < DEADLINE_SHARE else None
    owner = GREEDY if draw.random() < GREEDY_SHARE else plan.spec.owner
    return replace(plan, spec=replace(plan.spec, owner=owner, priority=priority, finish_within_s=within_s))


def add(found: Figures, scenario: Scenario, bundle: Policies) -> None:
    world = CalmWorld(scenario, bundle)
    begins, ledger = Begins(lambda: world.kernel.now_s), Ledger(world.kernel, world.machines)
    world.watch(begins)
    world.watch(ledger)
    world.run()
    station = world.coordinator.station
    assert station is not None
    known = station.engine.state.jobs
    for plan in scenario.jobs:
        spec = plan.spec
        wait_s = begins.first_s.get(plan.id, scenario.horizon_s) - plan.submit_s
        for of in ("all", spec.priority.name, GREEDY if spec.owner == GREEDY else "others"):
            found.waited(of, wait_s)
        if spec.request.gpus >= WIDE_GPUS:
            found.waited("wide", wait_s)
        job = known.get(plan.id)
        ended = job is not None and job.phase is JobPhase.SUCCEEDED
        found.jobs += 1
        found.done += ended
        # Those that could have been in time by the end.
        if spec.finish_within_s is not None and plan.submit_s + spec.finish_within_s <= scenario.horizon_s:
            found.to_be_in_time += 1
            if ended and job is not None and job.ended_s is not None:
                found.in_time += job.ended_s - plan.submit_s <= spec.finish_within_s
    for account in ledger.accounts().values():
        found.used_gpu_s += account.used_gpu_s
        found.lent_gpu_s += account.lent_gpu_s


def row(name: str, found: Figures) -> str:
    every = sorted(found.waits["all"])
    cells = [
        name,
        hours(median(every)),
        hours(every[int(0.9 * len(every))]),
        *(hours(median_of(found.waits, of)) for of in ("HIGH", GREEDY, "others", "wide")),
        f"{found.in_time / max(1, found.to_be_in_time):.0%}",
        f"{found.done / found.jobs:.0%}",
        f"{found.used_gpu_s / found.lent_gpu_s:.1%}",
    ]
    return f"| {' | '.join(cells)} |"


def median_of(waits: dict[str, list[float]], of: str) -> float:
    found: Sequence[float] = waits.get(of, ())
    return median(found) if found else 0.0


def hours(seconds: float) -> str:
    return f"{seconds / 3600:.2f} h"


if __name__ == "__main__":
    main()
