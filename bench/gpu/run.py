"""What watching GPUs costs: how long a look takes, and how much of a core the looking process uses.

On a machine without an NVIDIA driver it says so and measures nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import sys
import time

from gpunion.adapters.nvml import driver_is_here, find_gpus
from gpunion.agent.machine.watch_settings import WatchSettings

LOOKS = 60


async def measure() -> dict[str, object]:
    gpus = find_gpus()
    first_began_s = time.perf_counter()
    first = await gpus.look()
    first_s = time.perf_counter() - first_began_s
    if first.trouble:
        return {"trouble": first.trouble}
    period_s = WatchSettings().period_s
    took_s: list[float] = []
    began_s = time.perf_counter()
    for _ in range(LOOKS):
        look_began_s = time.perf_counter()
        await gpus.look()
        took_s.append(time.perf_counter() - look_began_s)
        await asyncio.sleep(period_s)
    wall_s = time.perf_counter() - began_s
    await gpus.close()
    child = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "gpus": [gpu.model for gpu in gpus.inventory()],
        "period_s": period_s,
        "first_look_ms": round(first_s * 1000, 2),
        "look_ms_median": round(statistics.median(took_s) * 1000, 2),
        "look_ms_max": round(max(took_s) * 1000, 2),
        "child_cpu_share": round((child.ru_utime + child.ru_stime) / wall_s, 4),
        "child_rss_mb": round(child.ru_maxrss / 1024, 1),
        "cores": os.cpu_count(),
    }


def main() -> int:
    if not driver_is_here():
        print("skipped: there is no NVIDIA driver on this machine")
        return 0
    print(json.dumps(asyncio.run(measure()), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
