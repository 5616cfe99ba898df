"""What a program wrote beside its output folder: it goes with the guest, and its user should hear of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gpunion.agent.run_records.notes import RunNote
from gpunion.domain.system_tier import Tier
from gpunion.limits import readable
from gpunion.text import size_in_words

# Written right before the guest's program begins; whatever is newer in its directory is of its making.
BEGUN_FILE = "begun"
NAMED = 5
NAMES_MAX_CHARS = 240
LOOKED_AT_MAX = 200_000  # twice as many files as may travel with a job
NOT_WORTH_TELLING = ("__pycache__", ".cache", ".ipynb_checkpoints", ".pytest_cache")


def begins(root: Path) -> None:
    (root / BEGUN_FILE).write_bytes(b"")


def written_elsewhere(note: RunNote) -> str:
    """In words, with what would have kept it; empty where there is nothing. Blocks."""
    if note.tier is Tier.SYSTEM:
        return ""  # what came with a whole guest looks as new as what it wrote since
    try:
        begun_ns = (note.paths.root / BEGUN_FILE).stat().st_mtime_ns
    except OSError:
        return ""
    found = _newer(note.paths.work_dir, begun_ns)
    if not found:
        return ""
    largest = sorted(found, key=lambda item: (-item[1], item[0]))
    named = ", ".join(name for name, _ in largest[:NAMED])[:NAMES_MAX_CHARS]
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    size = size_in_words(sum(size for _, size in found))
    return (
        f"not kept, as it was written outside of GPUNION_OUTPUT_DIR: {readable(named)}{more} ({size}). "
        "To keep it, have it written there: a command names that folder as '$GPUNION_OUTPUT_DIR', "
        "in single quotes"
    )


def _newer(folder: Path, begun_ns: int) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    looked = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in NOT_WORTH_TELLING)
        for name in names:
            looked += 1
            if looked > LOOKED_AT_MAX:
                return found
            path = os.path.join(place, name)
            try:
                about = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(about.st_mode) and about.st_mtime_ns > begun_ns:
                found.append((os.path.relpath(path, folder), about.st_size))
    return found
