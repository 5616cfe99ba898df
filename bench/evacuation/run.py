"""What it saves that guests save ahead of an end that was foretold, where their states do not fit the notice.

Three machines of four GPUs on 1 Gb/s with a notice of a minute, each its owner's for two hours a day.

    python bench/evacuation/run.py [SEEDS] [DAYS]
"""

from __future__ import annotations

import sys
from statistics import mean

from gpunion.lab.reference.foretold import foretold_campus, lost_and_stalled_s

SEEDS, DAYS = 3, 5
# GiB that a save ships, and seconds it stands still.
JOBS = ((2, 30.0), (2, 10.0), (1, 5.0), (4, 5.0))


def main() -> None:
    seeds = range(1, 1 + (int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS))
    days = int(sys.argv[2]) if len(sys.argv) > 2 else DAYS
    for state_gib, capture_s in JOBS:
        off, on = (
            [
                lost_and_stalled_s(
                    foretold_campus(seed, days=days, state_gib=state_gib, capture_s=capture_s),
                    evacuates=evacuates,
                )
                for seed in seeds
            ]
            for evacuates in (False, True)
        )
        lost, stalled = (
            mean(one[what] for one in on) / mean(one[what] for one in off) - 1.0 for what in (0, 1)
        )
        before_h = mean(one[0] for one in off) / 3600
        print(
            f"{state_gib} GiB, {capture_s:g} s a save: lost {before_h:.1f} h without, "
            f"{lost:+.0%} with; stood still {stalled:+.1%}"
        )


if __name__ == "__main__":
    main()
