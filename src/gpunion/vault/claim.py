"""Who uses a folder for checkpoints, written into it, so that a second one finds out.

Two that share a folder harm nobody's bytes: every lock holds between them. But copies in both would be one,
and neither would know.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

KEEPER_FILE, CAMPUS_FILE = "keeper", "campus"


def claimed_by(file: Path, who: str, *, anew: bool = False) -> str:
    """Who has it: `who`, where nobody had it before, or where that is to count no more. Empty where that
    cannot be told."""
    try:
        with suppress(FileExistsError), open(file, "x") as fresh:
            fresh.write(who + "\n")
        found = file.read_text().strip()
        if anew or not found:  # empty: a power cut came in between
            file.write_text(who + "\n")
            found = file.read_text().strip()
        return found
    except (OSError, UnicodeDecodeError):
        return ""
