"""A job's checkpoints in a folder first, and in a bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.manifest import Vault, VaultUnavailable
from gpunion.vault.replicas import Completed
from gpunion.vault.replicated import NamedVault, ReplicatedVault
from gpunion.vault.transfer.replicate import DeskReplicas

FOLDER, BUCKET = "folder", "bucket"
BOTH = (FOLDER, BUCKET)


def replicated(
    places: Iterable[str], open_place: Callable[[str], Vault], is_away: Callable[[str], bool]
) -> ReplicatedVault:
    """Each place is opened when it is first needed, and does not answer while it is away."""

    def opener(place: str) -> Callable[[], Vault]:
        opened: list[Vault] = []

        def open_once() -> Vault:
            if is_away(place):
                raise VaultUnavailable(f"{place} is away")
            if not opened:
                opened.append(open_place(place))
            return opened[0]

        return open_once

    return ReplicatedVault([NamedVault(place, opener(place)) for place in places])


def complete(desk_of: Callable[[str], VaultDesk]) -> Completed:
    """Copies to each place what it lacks of the other."""
    return DeskReplicas(desk_of).complete(
        "job-1", BOTH, pace=lambda sent_bytes: None, cancelled=lambda: False
    )
