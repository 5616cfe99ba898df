"""A named directory as a vault, where it is really the one that the campus means.

A machine without the mount would find an empty folder under the same name, and what is saved there would be
lost with the machine. So nothing is made here but by the coordinator, who leaves a mark.
"""

from __future__ import annotations

import os
from pathlib import Path

from gpunion.adapters.files.directory import DirectoryVault
from gpunion.adapters.files.mark import why_not
from gpunion.domain.place import CAMPUS, Place, PlaceKind
from gpunion.domain.sizes import size_in_words
from gpunion.ports.vault import VaultFull, VaultUnavailable

# Some records of a run. How much its saves take nobody knows: those that do not fit are told one by one.
ROOM_TO_BEGIN_BYTES = 1024**2


def open_shared(place: Place) -> DirectoryVault:
    check(place)
    return DirectoryVault(place.directory, create=bool(place.mark))


def open_own(folder: Path, mark: str) -> DirectoryVault:
    """The campus's vault, where this machine shares its folder. Without a mark nobody has told it yet."""
    trouble = why_not(Place(name=CAMPUS, kind=PlaceKind.CAMPUS, directory=os.fspath(folder), mark=mark))
    if trouble:
        through = f'have saves go through the coordinator: vault = "{CAMPUS}" in agent.toml'
        raise VaultUnavailable(f"{trouble}; or {through}")
    return DirectoryVault(folder)


def check_room(name: str, folder: str | os.PathLike[str]) -> None:
    """VaultFull where nothing can begin: who came with a job would be turned away, again and again."""
    about = os.statvfs(folder)
    free_bytes = about.f_bavail * about.f_frsize
    if free_bytes < ROOM_TO_BEGIN_BYTES:
        raise VaultFull(
            f"no room is left for checkpoints in {os.fspath(folder)} ({size_in_words(free_bytes)} free). "
            f"Next: make room on that disk; gpunion vault ls {name} shows what lies there"
        )


def check(place: Place) -> None:
    """VaultUnavailable where the mark it is known by is not in its folder."""
    if trouble := why_not(place):
        raise VaultUnavailable(trouble)
