"""Memory beyond its grant, for a guest that was dumped where it stood parked.

What it had on its GPU is in host memory then, and comes back there first: its container is made that much
wider, and no wider than this machine has room for.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path

from gpunion.adapters.runtimes.keeper.names import EXTRA_MEMORY_FILE
from gpunion.files import read_json, write_json

GIB = 1024**3
RESERVE_BYTES = 2 * GIB  # stays its owner's, as where a guest is parked
LIMIT_OPTIONS = ("--memory", "--memory-swap")


def extra_of(root: Path) -> int:
    record = read_json(os.fspath(root / EXTRA_MEMORY_FILE)) or {}
    return max(0, int(str(record.get("extra_bytes", 0))))


def grant(root: Path, extra_bytes: int) -> None:
    """Until somebody writes another number there, its keeper lets it have so much more."""
    write_json(os.fspath(root / EXTRA_MEMORY_FILE), {"extra_bytes": extra_bytes}, durable=False)


def widened(words: Sequence[str], extra_bytes: int) -> list[str]:
    """Those that `create` its container, with so much more memory where they limit it. The last option is the
    entry point; what follows is the guest's own."""
    last = words.index("--entrypoint")
    found = list(words[:1])
    for option, value in itertools.pairwise(words[:last]):
        found.append(str(int(value) + extra_bytes) if option in LIMIT_OPTIONS else value)
    return [*found, *words[last:]]


def why_not(extra_bytes: int, meminfo: str = "/proc/meminfo") -> str:
    """Empty where there is room for it now."""
    if extra_bytes == 0:
        return ""
    with open(meminfo, encoding="ascii") as file:
        rows = dict(line.split(":", 1) for line in file)
    room_bytes = int(rows["MemAvailable"].split()[0]) * 1024 - RESERVE_BYTES
    if extra_bytes <= room_bytes:
        return ""
    return (
        f"what it had on its GPU takes {extra_bytes / GIB:.1f} GiB of memory until it is back there, and "
        f"{max(0, room_bytes) / GIB:.1f} GiB are free"
    )
