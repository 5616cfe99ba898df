"""A named directory as a vault, where it is really the one that the campus means.

A machine without the mount would find an empty folder under the same name, and what is saved there would be
lost with the machine. So nothing is made here but by the coordinator, who leaves a mark.
"""

from __future__ import annotations

from pathlib import Path

from gpunion.adapters.files.directory import DirectoryVault
from gpunion.adapters.files.mark import shares
from gpunion.domain.place import Place
from gpunion.ports.vault import VaultUnavailable


def open_shared(place: Place) -> DirectoryVault:
    if place.mark and not shares(Path(place.directory), place.mark):
        raise VaultUnavailable(
            f"{place.directory} of this machine is not the place {place.name}: its mark is not there. "
            "Next: mount it here as it is mounted where the coordinator runs"
        )
    return DirectoryVault(place.directory, create=bool(place.mark))
