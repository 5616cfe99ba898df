"""CRIU's own words for what went wrong: they say more than Podman's. Standard library only, for keepers."""

from __future__ import annotations

import os

TAIL_BYTES = 256 * 1024
# Said in passing, or after the fact.
NOT_THE_CAUSE = ("FAILED", "cgroupd", "rlimit:")


def complaint_in(log: str | os.PathLike[str]) -> str:
    """The cause of a failure, from CRIU's log; empty when there is no log or no error in it."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            return complaint_of(file.read().decode(errors="replace").splitlines())
    except OSError:
        return ""


def complaint_of(lines: list[str]) -> str:
    errors = [line.partition("): ")[2] or line for line in lines if "Error (" in line]
    causes = [error for error in errors if not any(word in error for word in NOT_THE_CAUSE)]
    return f"CRIU: {(causes or errors)[0]}" if errors else ""
