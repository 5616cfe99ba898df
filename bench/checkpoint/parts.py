"""What the parts of a restore cost: processor seconds of each, beside what `cp` needs for the same files.

    .venv/bin/python bench/checkpoint/parts.py                          a twentieth of the size
    .venv/bin/python bench/checkpoint/parts.py --scale 1 --series lora --count 3
    .venv/bin/python bench/checkpoint/parts.py --scale 1 --series lora --count 3 --cores 2 4 8

Each figure is the least of several restores from the page cache. Processor time changes little with what else
the machine does; the times that pass (`wall`) say something on an idle machine alone.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

from keepers import Copies, Ours
from series import SERIES

from gpunion.adapters.files import coding, pieces, restore
from gpunion.adapters.files.blocks import Blocks
from gpunion.adapters.files.operations import FileOperations

# What is done inside of another part counts as its own alone.
PARTS: dict[str, tuple[Any, str]] = {
    "read": (FileOperations, "read_over"),
    "entropy": (pieces, "_decompress"),
    "numbers": (coding, "unpack"),
    "hash": (Blocks, "_verified"),
    "write": (restore, "_write_at"),
    "a block": (restore, "_restore_block"),
}
# What no program could leave out that reads the same files, and checks them.
FLOOR = ("read", "entropy", "hash", "write")
COLUMNS = (*PARTS, "others", "all", "cp", "wall", "cp wall")

_local = threading.local()
spent_s: Counter[str] = Counter()


def counted(part: str, work: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(work)
    def run(*arguments: Any, **more: Any) -> Any:
        outer_s = getattr(_local, "inner_s", 0.0)
        _local.inner_s = 0.0
        began_s = time.thread_time()
        try:
            return work(*arguments, **more)
        finally:
            took_s = time.thread_time() - began_s
            spent_s[part] += took_s - _local.inner_s
            _local.inner_s = outer_s + took_s

    return run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_arguments(parser)
    parser.add_argument(
        "--cores", nargs="*", type=int, help="so many of those that are here, one after the other"
    )
    arguments = parser.parse_args()
    for part, (owner, name) in PARTS.items():
        setattr(owner, name, counted(part, getattr(owner, name)))
    print(f"{'processor s':12}" + "".join(f"{name:>9}" for name in COLUMNS))
    for name in arguments.series:
        with tempfile.TemporaryDirectory(dir=arguments.place, prefix="gpunion-bench-") as folder:
            ours, copies = saved(name, Path(folder), arguments)
            for cores in within(arguments.cores):
                found = measured(ours, copies, Path(folder) / "restored", arguments.restores)
                show(f"{name}, {cores}", found, cores)
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", type=float, default=0.05)
    parser.add_argument(
        "--count", type=int, default=5, help="checkpoints in a series; the newest is restored"
    )
    parser.add_argument("--steps", type=int, default=10, help="optimiser steps between two checkpoints")
    parser.add_argument("--series", nargs="*", default=["full", "lora", "cache"], choices=list(SERIES))
    parser.add_argument("--restores", type=int, default=10)
    parser.add_argument("--place", type=Path, help="a folder on the disk to measure on")


def within(wanted: list[int] | None) -> Iterator[int]:
    """As many cores as are wanted, while the caller does what it has to do on them."""
    here = sorted(os.sched_getaffinity(0))
    for count in wanted or [len(here)]:
        os.sched_setaffinity(0, here[:count])
        yield len(here[:count])
    os.sched_setaffinity(0, here)


def saved(name: str, folder: Path, arguments: argparse.Namespace) -> tuple[Ours, Copies]:
    live = folder / "live"
    live.mkdir()
    ours, copies = Ours(folder / "ours"), Copies(folder / "cp")
    ours.begin()
    saves = SERIES[name](live, arguments.scale, arguments.steps)
    for number in range(arguments.count):
        next(saves)
        ours.save(live, number)
    copies.save(live, 0)
    copies.account()
    return ours, copies


def measured(ours: Ours, copies: Copies, target: Path, restores: int) -> dict[str, float]:
    """The least of each."""
    found: dict[str, float] = {}

    def least(name: str, value_s: float) -> None:
        found[name] = min(value_s, found.get(name, value_s))

    for _ in range(restores):
        spent_s.clear()
        all_s, began_s = time.process_time(), time.perf_counter()
        ours.restore(target)
        least("wall", time.perf_counter() - began_s)
        all_s = time.process_time() - all_s
        least("all", all_s)
        least("others", all_s - spent_s.total())
        for part in PARTS:
            least(part, spent_s[part])
        shutil.rmtree(target)
        before_s, began_s = _children_s(), time.perf_counter()
        copies.restore(target)
        least("cp wall", time.perf_counter() - began_s)
        least("cp", _children_s() - before_s)
        shutil.rmtree(target)
    return found


def show(name: str, found: dict[str, float], cores: int) -> None:
    """`cp` does one thing at a time: on an idle machine its processor time is the time it takes."""
    print(f"{name:12}" + "".join(f"{found[key]:9.3f}" for key in COLUMNS))
    floor_s = sum(found[key] for key in FLOOR)
    for title, total_s in (("all of it", found["all"]), (" + ".join(FLOOR), floor_s)):
        print(f"  at most {found['cp'] * cores / total_s:.2f} of cp's speed on {cores} cores: {title}")
    print(f"  {found['cp wall'] / found['wall']:.2f} as it was", flush=True)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
