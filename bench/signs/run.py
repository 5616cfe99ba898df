"""What it saves that owners can be seen before they come, on a small simulated campus that learns as it goes.

Five machines, three jobs, owners who come every four hours or so and announce none of it, or all of it two
minutes ahead. The same owners at the same times in every row; only what can be seen of them differs.

    python bench/signs/run.py [SEEDS] [DAYS]
"""

from __future__ import annotations

import sys
from math import sqrt
from statistics import mean, stdev

from gpunion.lab.reference.seen import SeenCost, cost_of, seen_campus
from gpunion.sim.scenario.values import SignHabit

SEEDS, DAYS = 6, 12.0
# 95 % of a normal distribution; with six seeds it is rather more than that.
SURE = 1.96
HABITS: dict[str, SignHabit | None] = {
    "seen before 4 of 5 visits, 10 min ahead": SignHabit(before_visits=0.8, ahead_s=600.0),
    "and six times a day for nothing": SignHabit(before_visits=0.8, ahead_s=600.0, idle_per_day=6.0),
    "seen before 4 of 5 visits, 1 min ahead": SignHabit(before_visits=0.8, ahead_s=60.0),
    "seen six times a day, for nothing only": SignHabit(idle_per_day=6.0, idle_s=1200.0),
    "never seen, and that is told": SignHabit(),
}


def main() -> None:
    seeds = range(1, 1 + (int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS))
    days = float(sys.argv[2]) if len(sys.argv) > 2 else DAYS
    for announced_share, said in ((0.0, "nothing is announced"), (1.0, "all is announced, 120 s ahead")):
        unseen = [
            cost_of(seen_campus(seed, None, days=days, announced_share=announced_share)) for seed in seeds
        ]
        lost_h, stalled_h = (
            mean(one.lost_s for one in unseen) / 3600,
            mean(one.stalled_s for one in unseen) / 3600,
        )
        visits = mean(one.interruptions for one in unseen)
        print(f"{said}; {len(seeds)} seeds of {days:g} days, {visits:.0f} interruptions each")
        print(f"  {'told nothing':42} lost {lost_h:6.1f} h         stood still {stalled_h:6.1f} h")
        for name, habit in HABITS.items():
            seen = [
                cost_of(seen_campus(seed, habit, days=days, announced_share=announced_share))
                for seed in seeds
            ]
            lost, stalled = (_against(seen, unseen, what) for what in ("lost_s", "stalled_s"))
            print(f"  {name:42} lost {lost} stood still {stalled}")


def _against(seen: list[SeenCost], unseen: list[SeenCost], what: str) -> str:
    changes = [
        getattr(one, what) / max(getattr(other, what), 1e-9) - 1.0
        for one, other in zip(seen, unseen, strict=True)
    ]
    doubt = SURE * stdev(changes) / sqrt(len(changes)) if len(changes) > 1 else 0.0
    return f"{mean(changes):+6.1%} ± {doubt:5.1%}"


if __name__ == "__main__":
    main()
