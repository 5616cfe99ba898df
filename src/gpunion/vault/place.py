"""Opens a named place, a folder or a bucket, as the vault and the desk of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpunion.vault.bounded import bounded
from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.locations import Place, PlaceKind
from gpunion.vault.shared import open_shared
from gpunion.vault.storage import Opened
from gpunion.vault.stores.bucket.bucket import Bucket, open_bucket
from gpunion.vault.stores.bucket.caretaker import BucketCaretaker
from gpunion.vault.stores.bucket.credentials import credentials_of
from gpunion.vault.stores.bucket.objects import Objects
from gpunion.vault.stores.bucket.store import BucketDesk
from gpunion.vault.stores.folder.caretaker import DirectoryCaretaker
from gpunion.vault.stores.folder.desk import DirectoryDesk
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.timeout_guard import Patience
from gpunion.vault.vault import MirrorVault
from gpunion.vault.vault_care import Caretaker


def open_place(place: Place, environment: Mapping[str, str], mirrors: Path, limit_bytes: int) -> Opened:
    """Not of kind campus. VaultDenied, VaultUnavailable. A bucket's mirror is a folder in `mirrors`."""
    if place.kind is PlaceKind.DIRECTORY:
        vault = open_shared(place)
        return Opened(vault, DirectoryDesk(vault))
    desk = BucketDesk(bucket_objects(place, environment))
    mirrors.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Opened(MirrorVault(desk, mirrors / place.name, limit_bytes=limit_bytes), desk)


def open_bounded(
    place: Place, *, patience: Patience, environment: Mapping[str, str], mirrors: Path, limit_bytes: int
) -> Opened:
    """The same, waited for no longer than `patience` has. A bucket's own client bounds what comes after."""
    opened = patience.ask(place.name, lambda: open_place(place, environment, mirrors, limit_bytes))
    return bounded(opened, place.name, patience) if place.kind is PlaceKind.DIRECTORY else opened


def open_caretaker(vault: Path | Place, environment: Mapping[str, str]) -> Caretaker:
    """A vault that is there already: none is made."""
    if isinstance(vault, Place) and vault.kind is PlaceKind.S3:
        return BucketCaretaker(bucket_objects(vault, environment))
    return DirectoryCaretaker(vault if isinstance(vault, Path) else vault.directory)


def open_desk(vault: Path | Place, environment: Mapping[str, str]) -> VaultDesk:
    if isinstance(vault, Place) and vault.kind is PlaceKind.S3:
        return BucketDesk(bucket_objects(vault, environment), create=False)
    folder = vault if isinstance(vault, Path) else Path(vault.directory)
    return DirectoryDesk(DirectoryVault(folder, create=False))


def bucket_objects(place: Place, environment: Mapping[str, str]) -> Objects:
    found = credentials_of(place, environment)
    bucket = Bucket(
        bucket=place.bucket,
        endpoint=place.endpoint,
        region=place.region,
        prefix=place.prefix,
        access_key_id=found.access_key_id,
        secret_access_key=found.secret_access_key,
        session_token=found.session_token,
    )
    return open_bucket(bucket)
