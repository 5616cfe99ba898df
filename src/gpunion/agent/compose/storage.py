"""Where checkpoints are kept: the campus's vault and the places of jobs, for an agent and for who looks."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from gpunion.adapters.files.bounded import open_own_bounded
from gpunion.adapters.files.directory import DirectoryVault
from gpunion.adapters.files.mirror import MirrorVault
from gpunion.adapters.files.patience import Patience
from gpunion.adapters.files.replicated import NamedVault, ReplicatedVault
from gpunion.adapters.files.restore import restore_directory
from gpunion.adapters.http.vault_desk import HttpVaultDesk
from gpunion.adapters.s3.place import open_bounded, open_caretaker, open_desk
from gpunion.agent.compose.folders import AGENT_DIR, CACHE_DIR, PLACES_FILE
from gpunion.agent.settings import Settings
from gpunion.agent.storage import Storage
from gpunion.ports.storage import Opened

# What `gpunion vault` asks about a directory or a place, and where its repair takes sound blocks from.
caretaker = partial(open_caretaker, environment=os.environ)
desk_of = partial(open_desk, environment=os.environ)


def storage_of(settings: Settings) -> Storage:
    patience = Patience()
    return Storage(
        open_campus=partial(_campus_vault, settings, patience),
        open_place=partial(
            open_bounded,
            patience=patience,
            environment=os.environ,
            mirrors=settings.state_dir / CACHE_DIR / "places",
            limit_bytes=settings.cache_bytes,
        ),
        combine=lambda vaults, passed_over: ReplicatedVault(
            [NamedVault(*named) for named in vaults], patience, passed_over
        ),
        memory=settings.state_dir / AGENT_DIR / PLACES_FILE,
        own=settings.places,
        campus_folder=settings.vault is not None,
    )


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
