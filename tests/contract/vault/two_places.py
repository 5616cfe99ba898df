"""A job's checkpoints in a folder and in a bucket, either of which may be away or torn."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpunion.vault.interfaces import VaultDesk
from gpunion.vault.manifest import Manifest, Vault, VaultUnavailable
from gpunion.vault.replicas import Completed
from gpunion.vault.replicated import ReplicatedVault
from gpunion.vault.stores.bucket.caretaker import BucketCaretaker
from gpunion.vault.stores.bucket.objects import Objects
from gpunion.vault.stores.bucket.store import BucketDesk
from gpunion.vault.stores.folder.caretaker import DirectoryCaretaker
from gpunion.vault.stores.folder.desk import DirectoryDesk
from gpunion.vault.stores.folder.store import DirectoryVault
from gpunion.vault.transfer.download import restore_directory
from gpunion.vault.vault import MirrorVault
from gpunion.vault.vault_care import Caretaker
from tests.builders.checkpoints import name_of
from tests.builders.two_places import BOTH, FOLDER, complete, replicated


@dataclass
class TwoPlaces:
    root: Path
    store: Any
    away: set[str] = field(default_factory=set)

    def folder(self) -> DirectoryVault:
        return DirectoryVault(self.root / "folder", grace_s=0.0)

    def objects(self) -> Objects:
        return Objects(self.store, "memory")

    def desk(self, place: str) -> VaultDesk:
        if place in self.away:
            raise VaultUnavailable(f"{place} is away")
        return DirectoryDesk(self.folder()) if place == FOLDER else BucketDesk(self.objects(), grace_s=0.0)

    def open(self, place: str) -> Vault:
        desk = self.desk(place)
        if isinstance(desk, DirectoryDesk):
            return self.folder()
        mirror = self.root / f"mirror-{len(list(self.root.iterdir()))}"
        return MirrorVault(desk, mirror, limit_bytes=10**9)

    def vault(self, *order: str) -> ReplicatedVault:
        return replicated(order or BOTH, self.open, lambda place: place in self.away)

    def copy(self) -> Completed:
        return complete(self.desk)

    def tear_in_folder(self, data: bytes) -> None:
        path = next((self.root / "folder").rglob(f"blocks/*/{name_of(data)}"))
        path.write_bytes(path.read_bytes()[:-1] + b"?")

    def tear_in_bucket(self, data: bytes) -> None:
        objects = self.objects()
        keys = [listed.key for listed in objects.list("") if f"/{name_of(data)}/" in listed.key]
        assert keys
        for key in keys:
            objects.put(key, b"torn")

    def tear(self, place: str) -> None:
        """Every block of it."""
        if place == FOLDER:
            for path in self.folder().stored():
                path.write_bytes(b"torn")
            return
        objects = self.objects()
        for listed in objects.list(""):
            if "blocks/" in listed.key:
                objects.put(listed.key, b"torn")

    def caretaker(self, place: str) -> Caretaker:
        if place == FOLDER:
            return DirectoryCaretaker(self.root / "folder")
        return BucketCaretaker(self.objects())

    def ids(self, place: str) -> list[str]:
        return [manifest.checkpoint_id for manifest in self.open(place).manifests("job-1")]


def quietly(done: int, total: int) -> None:
    assert 0 < done <= total


def restored(vault: Vault, manifest: Manifest, into: Path) -> bytes:
    restore_directory(vault, manifest, into)
    return (into / manifest.files[0].path).read_bytes()
