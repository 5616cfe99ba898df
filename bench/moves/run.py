"""Tier `system`: an unmodified container moves 50 times between two machines and loses or repeats no step.

    python bench/moves/run.py [--moves 50] [--ballast-mib 16] [--kill-agents]

Needs root, Podman, runc and CRIU (tools/install-criu). Makes two network namespaces, a bridge and a temporary
folder, and removes them. Where something is missing it says so and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.moves.play import Crash, Move, play  # noqa: E402
from gpunion.adapters.runtimes.podman.probing import no_means  # noqa: E402

PERCENTILE = 95
# From the beginning of the dump to the end of the restore, on a machine like that of the measurements.
CRASHES = [
    *(Crash(after_s=after_s, at_destination=False) for after_s in (0.3, 0.6, 0.9, 1.2)),
    *(Crash(after_s=after_s, at_destination=True) for after_s in (1.2, 1.6, 2.0, 2.4, 2.8)),
]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moves", type=int, default=50)
    parser.add_argument(
        "--ballast-mib", type=int, default=16, help="memory the program holds beside its counter"
    )
    parser.add_argument("--kill-agents", action="store_true", help="an agent is killed in every move")
    arguments = parser.parse_args()
    missing = no_means() or ("" if shutil.which("podman") else "podman is not installed")
    if missing:
        print(f"skipped: {missing}")
        return 0
    root = Path(tempfile.mkdtemp(prefix="gpunion-moves-"))
    try:
        with play(root) as campus:
            campus.begin(arguments.ballast_mib)
            for number in range(1, arguments.moves + 1):
                move = campus.move(CRASHES[number % len(CRASHES)] if arguments.kill_agents else None)
                print(
                    f"{number:3} {move.source} -> {move.destination}  stood still {move.downtime_s:5.2f} s, "
                    f"shipped {move.shipped_bytes:>9,} of {move.size_bytes:,} bytes, "
                    f"{move.lost_or_repeated} steps lost or repeated",
                    flush=True,
                )
            counted = campus.book()[-1][0]
            tiers = {checkpoint["tier"] for checkpoint in campus.checkpoints()}
            print(json.dumps(summary(campus.moves, counted, tiers), indent=2))
            return int(any(move.lost_or_repeated for move in campus.moves) or tiers != {"system"})
    finally:
        shutil.rmtree(root, ignore_errors=True)


def summary(moves: list[Move], counted: int, tiers: set[str]) -> dict[str, object]:
    downtimes = sorted(move.downtime_s for move in moves)
    later = [move.shipped_bytes for move in moves[1:]] or [0]
    return {
        "moves": len(moves),
        "tiers": sorted(tiers),
        "steps_counted": counted,
        "steps_lost_or_repeated": sum(move.lost_or_repeated for move in moves),
        "downtime_s_median": round(statistics.median(downtimes), 2),
        "downtime_s_p95": round(downtimes[-(-len(downtimes) * PERCENTILE // 100) - 1], 2),
        "downtime_s_max": round(downtimes[-1], 2),
        "dump_bytes": moves[-1].size_bytes,
        "shipped_bytes_first": moves[0].shipped_bytes,
        "shipped_bytes_later_median": int(statistics.median(later)),
        "cores": os.cpu_count(),
        "load_1min": round(os.getloadavg()[0], 1),
    }


if __name__ == "__main__":
    sys.exit(main())
