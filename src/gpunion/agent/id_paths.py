"""The one way from a name that the coordinator gave to a path on this machine.

Frames with other names are refused where they arrive. Whoever adds a way around that finds this in the way:
what is joined here is removed with all it holds one day.
"""

from __future__ import annotations

from pathlib import Path

from gpunion.limits import checked_id


def path_of(folder: Path, name: str, *, ending: str = "") -> Path:
    """Right below the folder, whatever the name; OutOfRange where it cannot be."""
    return folder / f"{checked_id(name)}{ending}"
