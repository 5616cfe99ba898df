"""Where checkpoints are kept: the campus's vault and the places of jobs, for an agent and for who looks."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from gpunion.agent.compose.lent_disk import KeptHere
from gpunion.agent.compose.runtime_files import AGENT_DIR, CACHE_DIR, PLACES_FILE
from gpunion.agent.settings import Settings
from gpunion.vault.bounded import bounded, open_own_bounded
from gpunion.vault.http.vault_desk import HttpVaultDesk, desk_at_keeper
from gpunion.vault.locations import Place, PlaceKind
from gpunion.vault.manifest import VaultUnavailable
from gpunion.vault.opener import Storage
from gpunion.vault.place import open_bounded, open_caretaker, open_desk
from gpunion.vault.replicated import NamedVault, ReplicatedVault
from gpunion.vault.storage import Opened
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.timeout_guard import Patience
from gpunion.vault.transfer.download import restore_directory
from gpunion.vault.vault import MirrorVault

# What `gpunion vault` asks about a directory or a place, and where its repair takes sound blocks from.
caretaker = partial(open_caretaker, environment=os.environ)
desk_of = partial(open_desk, environment=os.environ)
__all__ = ["caretaker", "desk_of", "storage_of"]


def storage_of(settings: Settings, kept: KeptHere | None = None) -> Storage:
    """`kept`: what this machine keeps itself for the campus."""
    patience = Patience()
    return Storage(
        open_campus=partial(_campus_vault, settings, patience),
        open_place=partial(_open_place, settings, kept, patience),
        combine=lambda vaults, passed_over: ReplicatedVault(
            [NamedVault(*named) for named in vaults], patience, passed_over
        ),
        memory=settings.state_dir / AGENT_DIR / PLACES_FILE,
        node_id=settings.node_id,
        own=settings.places,
        campus_folder=settings.vault is not None,
    )


def _open_place(settings: Settings, kept: KeptHere | None, patience: Patience, place: Place) -> Opened:
    mirrors = settings.state_dir / CACHE_DIR / "places"
    if place.kind is not PlaceKind.NODE:
        return open_bounded(
            place,
            patience=patience,
            environment=os.environ,
            mirrors=mirrors,
            limit_bytes=settings.cache_bytes,
        )
    if place.node != settings.node_id:
        return open_at_keeper(place, mirrors, settings.cache_bytes)
    if kept is None:
        raise VaultUnavailable(
            f"the campus says that {place.name} lies on this machine, and its owner lends no disk. "
            "Next: write [keeps] into agent.toml, or have the place taken out of the coordinator's settings"
        )
    return bounded(patience.ask(place.name, kept.opened), place.name, patience)


def open_at_keeper(place: Place, mirrors: Path, limit_bytes: int) -> Opened:
    """A place on another machine's disk, with a mirror here."""
    desk = desk_at_keeper(place)
    mirrors.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Opened(MirrorVault(desk, mirrors / place.name, limit_bytes=limit_bytes), desk)


def _campus_vault(settings: Settings, patience: Patience, mark: str) -> Opened:
    if settings.vault is not None:
        return open_own_bounded(settings.vault, mark, patience)
    desk = HttpVaultDesk(settings.coordinator, settings.credential())
    mirror = settings.state_dir / CACHE_DIR / "vault"
    return Opened(MirrorVault(desk, mirror, limit_bytes=settings.cache_bytes), desk)


def fetch(vault: Path, job_id: str, checkpoint_id: str, target: Path) -> None:
    """What a job saved or left as output, out of a directory vault."""
    shelf = DirectoryVault(vault)
    restore_directory(shelf, shelf.get(job_id, checkpoint_id), target)
