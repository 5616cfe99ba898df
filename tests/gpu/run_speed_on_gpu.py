"""Compares a training in the sandbox with the same program run bare, by turns, and prints it as JSON.

    python3 tests/gpu/run_speed_on_gpu.py --wheels DIR [--rounds 3] [--runtimes sandbox,podman] [--out FILE]

Needs what run_on_gpu.py needs, and for the sandbox a bubblewrap in PATH (`tools/portable-bwrap` where nothing
can be installed). A runtime that is not there is left out and named. Says as well what the agent heard of the
driver, beside what `nvidia-smi` says: the jobs ask for just that compute capability and CUDA version, so a
card that was misread takes none of them. While a program runs bare no agent does. Exit status 0: all as
wanted. `--rehearse` plays it with a made-up driver and proves nothing about a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.gpu.run_on_gpu import PREPARED, again_with  # noqa: E402

WANTED = 0.98


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheels", type=Path, help="the folder with the wheels (where none are installed)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runtimes", default="sandbox,podman")
    parser.add_argument("--out", type=Path, help="write the JSON here as well")
    parser.add_argument("--rehearse", action="store_true", help="with a made-up driver, on any machine")
    arguments = parser.parse_args()
    if not arguments.rehearse and not os.path.exists("/dev/nvidiactl"):
        print("skipped: there is no NVIDIA driver on this machine")
        return 0
    with tempfile.TemporaryDirectory(prefix="gpunion-speed-") as folder:
        if PREPARED not in os.environ:
            return again_with(arguments.wheels, Path(folder))
        answer = show(
            Path(folder), arguments.runtimes.split(","), arguments.rounds, rehearse=arguments.rehearse
        )
    text = json.dumps(answer, indent=2)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    return 0 if all(answer["verdicts"].values()) else 1


def show(folder: Path, runtimes: list[str], rounds: int, *, rehearse: bool = False) -> dict[str, Any]:
    from tests.gpu.described import described
    from tests.gpu.speed_scene import SpeedScene, rehearsed_machine, seen_machine

    folder.chmod(0o755)
    there = [name for name in runtimes if name == "sandbox" or shutil.which(name)]
    with rehearsed_machine(folder) if rehearse else seen_machine() as machine, described():
        scene = SpeedScene(folder / "campus", machine, there, rounds)
        found = scene.play()
    found["date"] = time.strftime("%Y-%m-%d")
    found["left_out"] = sorted(set(runtimes) - set(there))
    found["ratios"] = {name: _ratios(found["rounds"], name) for name in there}
    found["verdicts"] = verdicts(found)
    return found


def verdicts(found: dict[str, Any]) -> dict[str, bool]:
    speeds = {
        f"{name}_{kind}": ratio["of_medians"] >= WANTED
        for name, kinds in found["ratios"].items()
        for kind, ratio in kinds.items()
    }
    no_trouble = {f"{name}_runs": not found["trouble"].get(name) for name in found["ratios"]}
    return {"heard_as_nvidia_smi_says": found.get("heard") == found["nvidia_smi"], **no_trouble, **speeds}


def _ratios(rounds: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Of steps in a second: in this runtime and bare."""
    both = [(row["bare"]["rates"], row[name]["rates"]) for row in rounds if name in row]
    answer = {}
    for kind in both[0][0] if both else ():
        medians = [statistics.median(rates[kind] for rates in side) for side in zip(*both, strict=True)]
        answer[kind] = {
            "of_medians": round(medians[1] / medians[0], 4),
            "by_round": [round(inside[kind] / bare[kind], 4) for bare, inside in both],
        }
    return answer


if __name__ == "__main__":
    sys.exit(main())
