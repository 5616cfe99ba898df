"""A mark in a vault's folder, by which a machine finds out whether it shares that folder or only its name."""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path

from gpunion.vault.locations import MARK_FILE, Place

# What file systems answer where a file has one name only.
NO_SECOND_NAME = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


def mark_of(folder: Path) -> str:
    """Made where there is none yet. Empty where the folder cannot be written or read."""
    path = folder / MARK_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            _make(path)
        found = path.read_text().strip()
        if not found:  # where a file has one name only, a power cut may leave it empty
            path.write_text(_new_mark())
            found = path.read_text().strip()
        return found
    except (OSError, UnicodeDecodeError):
        return ""


def shares(folder: Path, mark: str) -> bool:
    try:
        return (folder / MARK_FILE).read_text().strip() == mark
    except (OSError, UnicodeDecodeError):
        return False


def why_not(place: Place, where: str = "on this machine") -> str:
    """Why the folder under the place's name is not that place now; nothing where it is. `where`: for who
    reads it elsewhere."""
    if not place.mark or shares(Path(place.directory), place.mark):
        return ""
    return (
        f"{place.directory} {where} is not the place {place.name}: its mark is not there, so it is "
        "not mounted, or was emptied. Next: mount it there as it is mounted elsewhere; "
        f"if it was emptied on purpose, gpunion places accept {place.name}"
    )


def _make(path: Path) -> None:
    """Whole or not at all, and never in place of another."""
    fresh = path.with_name(f".{MARK_FILE}.{secrets.token_hex(8)}")
    fresh.write_text(_new_mark())
    try:
        os.link(fresh, path)
    except OSError as error:
        if error.errno not in NO_SECOND_NAME:
            raise
        with open(path, "x") as file:
            file.write(_new_mark())
    finally:
        fresh.unlink()


def _new_mark() -> str:
    return secrets.token_hex(16) + "\n"
