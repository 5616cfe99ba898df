"""Series of checkpoints, kept by our vault and by what people use today, side by side in one run.

    .venv/bin/python bench/checkpoint/run.py                      a twentieth of the size, within ten minutes
    .venv/bin/python bench/checkpoint/run.py --scale 1 --out result.json

At every save each tool in turn keeps the same directory; which one begins moves on. Times on a shared machine
mean little by themselves: the ratios are what is compared.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from keepers import TOOLS, Tool, size_of
from series import SERIES

RESTORES = 7  # the first may have to fetch from the disk; the best of them counts


@dataclass
class Figures:
    save_s: list[float] = field(default_factory=list)
    restore_s: list[float] = field(default_factory=list)
    shipped_bytes: int = 0
    stored_bytes: int = 0

    def summary(self) -> dict[str, float]:
        return {
            "stored_bytes": self.stored_bytes,
            "shipped_bytes": self.shipped_bytes,
            "save_s_first": self.save_s[0],
            "save_s_total": sum(self.save_s),
            "save_s_median": statistics.median(self.save_s[1:] or self.save_s),
            "restore_s_best": min(self.restore_s),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.05, help="1: the sizes of the issue")
    parser.add_argument("--count", type=int, default=20, help="checkpoints in a series")
    parser.add_argument("--steps", type=int, default=10, help="optimiser steps between two checkpoints")
    parser.add_argument("--series", nargs="*", default=list(SERIES), choices=list(SERIES))
    parser.add_argument("--tools", nargs="*", default=[tool.name for tool in TOOLS])
    parser.add_argument("--place", type=Path, help="a folder on the disk to measure on")
    parser.add_argument("--out", type=Path, help="keep the figures as JSON")
    arguments = parser.parse_args()
    wanted = [tool for tool in TOOLS if tool.name in arguments.tools]
    for tool in wanted:
        if not tool.here():
            print(f"{tool.name} is not installed and is left out", file=sys.stderr)
    results: dict[str, object] = {"about": _about(arguments)}
    for name in arguments.series:
        with tempfile.TemporaryDirectory(dir=arguments.place, prefix="gpunion-bench-") as folder:
            figures = measure(name, Path(folder), arguments, [tool for tool in wanted if tool.here()])
        results[name] = figures
        show(name, figures)
        if arguments.out:
            arguments.out.write_text(json.dumps(results, indent=2) + "\n")
    return 0


def measure(
    name: str, folder: Path, arguments: argparse.Namespace, kinds: list[type[Tool]]
) -> dict[str, dict[str, float]]:
    live = folder / "live"
    live.mkdir()
    tools = [kind(folder / kind.name) for kind in kinds]
    for tool in tools:
        tool.begin()
    figures = {tool.name: Figures() for tool in tools}
    saves = SERIES[name](live, arguments.scale, arguments.steps)
    for number in range(arguments.count):
        next(saves)
        for tool in _in_turn(tools, number):
            os.sync()  # what others left behind is not this one's to wait for
            began_s = time.perf_counter()
            shipped_bytes = tool.save(live, number)
            figures[tool.name].save_s.append(time.perf_counter() - began_s)
            figures[tool.name].shipped_bytes += shipped_bytes
            tool.account()
        print(f"{name}: checkpoint {number + 1} of {arguments.count}", file=sys.stderr)
    for tool in tools:
        figures[tool.name].stored_bytes = tool.stored_bytes
    for number in range(RESTORES):
        for tool in _in_turn(tools, number):
            target = folder / "restored"
            os.sync()
            began_s = time.perf_counter()
            tool.restore(target)
            figures[tool.name].restore_s.append(time.perf_counter() - began_s)
            _check(tool, live, target)
            shutil.rmtree(target)
    print(f"{name}: one checkpoint is {size_of(live) / 1e6:.0f} MB at the end", file=sys.stderr)
    return {tool.name: figures[tool.name].summary() for tool in tools}


def show(name: str, figures: dict[str, dict[str, float]]) -> None:
    """With how many times ours each takes. `a save` is the median without the first."""
    ours = figures.get("gpunion")
    titles = ("stored MB", "shipped MB", "all saves s", "a save s", "restore s")
    print(f"\n{name}\n{'':10}" + "".join(f"{title:>17}" for title in titles))
    for tool, found in figures.items():
        cells = []
        for key, unit, digits in (
            ("stored_bytes", 1e6, 1),
            ("shipped_bytes", 1e6, 1),
            ("save_s_total", 1.0, 2),
            ("save_s_median", 1.0, 3),
            ("restore_s_best", 1.0, 3),
        ):
            ratio = f" ({found[key] / ours[key]:5.2f}x)" if ours and ours[key] else ""
            cells.append(f"{found[key] / unit:8.{digits}f}{ratio}")
        print(f"{tool:10}" + "".join(f"{cell:>17}" for cell in cells))
    sys.stdout.flush()


def _in_turn(tools: list[Tool], number: int) -> list[Tool]:
    start = number % len(tools)
    return tools[start:] + tools[:start]


def _check(tool: Tool, live: Path, target: Path) -> None:
    """restic keeps the whole path; wherever the files are, they must be the same."""
    restored = {path.name: path for path in target.rglob("*") if path.is_file()}
    for path in live.iterdir():
        if not filecmp.cmp(path, restored[path.name], shallow=False):
            raise RuntimeError(f"{tool.name}: {path.name} came back changed")


def _about(arguments: argparse.Namespace) -> dict[str, object]:
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "scale": arguments.scale,
        "checkpoints": arguments.count,
        "steps_between": arguments.steps,
    }


if __name__ == "__main__":
    sys.exit(main())
