"""A named directory as a vault, where it is really the one that the campus means.

A machine without the mount would find an empty folder under the same name, and what is saved there would be
lost with the machine. So nothing is made here but by the coordinator, who leaves a mark.
"""

from __future__ import annotations

import os
from pathlib import Path

from gpunion.vault.locations import CAMPUS, Place, PlaceKind
from gpunion.vault.manifest import VaultUnavailable
from gpunion.vault.mark import why_not
from gpunion.vault.stores.folder.store import DirectoryVault


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


def check(place: Place) -> None:
    """VaultUnavailable where the mark it is known by is not in its folder."""
    if trouble := why_not(place):
        raise VaultUnavailable(trouble)
