"""Which files of a folder of traces to use. A file is known by its columns, never by its name."""

from __future__ import annotations

from pathlib import Path

from gpunion.lab.traces.formats import Kind, format_of
from gpunion.lab.traces.rows import TraceError

# Owners: groups' demand says most, then single machines. Whole-cluster counts and failures are no owners.
WANTED = {"owners": (Kind.DEMAND, Kind.LOG_INS), "jobs": (Kind.JOBS,)}
# A demand of one pool only is a cluster's, not that of groups with machines of their own.
POOLED = "helios demand"


def largest(folder: Path, purpose: str) -> Path:
    """Of the first kind there is, the largest file: it says most."""
    found: dict[tuple[int, bool], list[Path]] = {}
    for path in sorted(folder.rglob("*.csv")):
        try:
            known = format_of(path)
        except TraceError:
            continue
        if known.kind in WANTED[purpose]:
            rank = (WANTED[purpose].index(known.kind), known.name != POOLED)
            found.setdefault(rank, []).append(path)
    if not found:
        raise TraceError(f"{folder}: no trace of {purpose} in it", next_step=f"give --{purpose} CSV")
    return max(found[min(found)], key=lambda path: (path.stat().st_size, path.name))
