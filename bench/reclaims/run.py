"""Moving within a notice: 200 reclaims on 8 machines behind capped cables, state and notices of mixed sizes.

    python bench/reclaims/run.py [--reclaims 200] [--at-once 2] [--seed 1]

Counts, of the flushes that arithmetic says fit their notice, how many were in time; whether anything that was
acknowledged as durable was lost; and what the others fell back to. Needs root and iproute2; makes eight
network namespaces, a bridge and a temporary folder, and removes them. Exit 0 when the bars are met.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.reclaims.play import Reclaim, play  # noqa: E402

IN_TIME_SHARE = 0.98


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reclaims", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=2, help="machines wanted back at the same time")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("ip") is None:
        print("skipped: network namespaces need root and iproute2")
        return 0
    root = Path(tempfile.mkdtemp(prefix="gpunion-reclaims-"))
    try:
        with play(root) as campus:
            campus.begin()
            print(f"{len(campus.jobs)} jobs run and have been saved once", flush=True)
            owners = [
                threading.Thread(
                    target=campus.reclaim_some, args=(share, arguments.seed + number, _tell(campus.seen))
                )
                for number, share in enumerate(_shares(arguments.reclaims, arguments.at_once))
            ]
            for owner in owners:
                owner.start()
            for owner in owners:
                owner.join()
            figures = summary(campus.seen)
            print(json.dumps(figures, indent=2))
            out = ROOT / "bench" / "out"
            out.mkdir(exist_ok=True)
            rows = [asdict(reclaim) for reclaim in campus.seen]
            (out / "reclaims.json").write_text(json.dumps({**figures, "rows": rows}, indent=1) + "\n")
            wanted = figures["reclaims"] == arguments.reclaims
            return 0 if wanted and figures["met"] else 1
    finally:
        shutil.rmtree(root, ignore_errors=True)


def summary(seen: list[Reclaim]) -> dict[str, Any]:
    feasible = [reclaim for reclaim in seen if reclaim.feasible]
    others = [reclaim for reclaim in seen if not reclaim.feasible]
    in_time = sum(reclaim.in_time for reclaim in feasible)
    lost = sum(reclaim.lost > 0 for reclaim in seen)
    downtimes = sorted(reclaim.downtime_s for reclaim in seen if reclaim.downtime_s is not None)
    return {
        "reclaims": len(seen),
        "feasible": len(feasible),
        "feasible_in_time": in_time,
        "feasible_in_time_share": in_time / len(feasible) if feasible else None,
        "not_feasible": len(others),
        "not_feasible_in_time_all_the_same": sum(reclaim.in_time for reclaim in others),
        "hopeless_in_time": sum(reclaim.in_time for reclaim in seen if reclaim.hopeless),
        "acknowledged_lost": lost,
        "steps_redone_by_fallbacks": sum(reclaim.steps_redone for reclaim in others),
        "latest_end_after_notice_s": max((reclaim.late_s for reclaim in seen), default=0.0),
        "downtime_median_s": downtimes[len(downtimes) // 2] if downtimes else None,
        "downtime_p95_s": downtimes[int(0.95 * (len(downtimes) - 1))] if downtimes else None,
        "reasons_of_fallbacks": dict(Counter(code for r in seen if not r.in_time for code in set(r.reasons))),
        "met": bool(feasible) and in_time >= IN_TIME_SHARE * len(feasible) and not lost,
    }


def _shares(total: int, parts: int) -> list[int]:
    return [total // parts + (number < total % parts) for number in range(parts)]


def _tell(seen: list[Reclaim]) -> Any:
    def tell(reclaim: Reclaim) -> None:
        kind = "fits" if reclaim.feasible else "hopeless" if reclaim.hopeless else "tight"
        became = "in time" if reclaim.in_time else f"fell back, {reclaim.steps_redone} steps again"
        print(
            f"{len(seen):4} {reclaim.size_mb:3} MB in {reclaim.notice_s:4.0f} s ({kind}): {became}; "
            f"stood still {reclaim.downtime_s or 0:.1f} s, {reclaim.lost} acknowledged steps lost",
            flush=True,
        )

    return tell


if __name__ == "__main__":
    sys.exit(main())
