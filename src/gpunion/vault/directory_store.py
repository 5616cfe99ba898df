"""Directories that travel with jobs, kept as a vault keeps checkpoints: same blocks, same locks, same sweep.

Each list is a sealed record of its own, under its hash as if that were a job. When it was last asked for is
the age of the record's file.
"""

from __future__ import annotations

import io
import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gpunion.vault.job_directories import decode_list, digest_of_file, encode_list
from gpunion.vault.manifest import (
    BadManifest,
    CorruptBlock,
    Manifest,
    MissingBlock,
    VaultFault,
    VaultFull,
)
from gpunion.vault.manifests import block_names
from gpunion.vault.stores.folder.locks import locked
from gpunion.vault.stores.folder.records import Shelf
from gpunion.vault.stores.folder.store import BEGUN_LEASE_S, GRACE_S, DirectoryVault
from gpunion.vault.tree import BLOCK_SIZE_BYTES, BadTree
from gpunion.vault.trees import Offer, Swept, TreesFault, TreesFull

RECORD, TIER = "list", "work"
# Somebody who runs the same again tomorrow sends nothing; a submission is never this slow.
IDLE_S = 24 * 3600.0


class DirectoryTrees:
    """Implements `vault.trees.Trees`. `keep_free_bytes` of the disk are left for the coordinator itself."""

    def __init__(
        self, root: Path, *, keep_free_bytes: int = 0, idle_s: float = IDLE_S, grace_s: float = GRACE_S
    ) -> None:
        with _faults():
            self._vault = DirectoryVault(root, grace_s=grace_s)
        self._root = root
        self._keep_free_bytes = keep_free_bytes
        self._idle_s = idle_s

    def offer(self, digest: str, listing: bytes | BinaryIO) -> Offer:
        source = io.BytesIO(listing) if isinstance(listing, bytes) else listing
        found = digest_of_file(source)
        if found != digest:
            raise BadTree(f"the list has hash {found}, not {digest}")
        source.seek(0)
        files = decode_list(source)
        manifest = Manifest(
            checkpoint_id=RECORD, job_id=digest, epoch=0, step=0, progress=0.0, tier=TIER, parent=None,
            created_s=0.0, files=files, block_size_bytes=BLOCK_SIZE_BYTES,
            total_bytes=sum(entry.size_bytes for entry in files), new_bytes=0,
        )  # fmt: skip
        names = block_names(manifest)
        with _faults():
            if self.claim(digest):
                return Offer(missing=())
            self._vault.begin(digest, 0)
            missing = names - self._vault.has(names)
            if not missing:
                self._vault.seal(manifest)
        return Offer(missing=tuple(sorted(missing)))

    def put(self, name: str, data: bytes) -> int:
        with _faults():
            if shutil.disk_usage(self._root).free - len(data) < self._keep_free_bytes:
                raise TreesFull(
                    f"less than {self._keep_free_bytes} bytes are free where directories are kept"
                )
            return self._vault.put(name, data)

    def listing(self, digest: str) -> bytes | None:
        with _faults():
            record = self._shelf(digest).find(RECORD)
            try:
                return None if record is None else encode_list(self._vault.read_manifest(record).files)
            except FileNotFoundError:
                return None

    def read(self, name: str) -> bytes | None:
        with _faults():
            try:
                return self._vault.read_block(name)
            except (MissingBlock, CorruptBlock, BadManifest):
                return None

    def claim(self, digest: str) -> bool:
        """The record becomes young, which `sweep` looks at under the same lock."""
        shelf = self._shelf(digest)
        if not shelf.root.is_dir():
            return False
        with _faults(), locked(shelf.lock):
            record = shelf.find(RECORD)
            if record is not None:
                os.utime(record)
            return record is not None

    def sweep(self, needed: Collection[str]) -> Swept:
        dropped = 0
        with _faults():
            for shelf in self._vault.shelves():
                if shelf.root.name not in needed:
                    dropped += self._drop_if_idle(shelf)
            garbage = self._vault.collect_garbage()
        return Swept(trees=dropped, blocks=garbage.blocks, stored_bytes=garbage.stored_bytes)

    def _drop_if_idle(self, shelf: Shelf) -> bool:
        """An offer that comes in between finds its place gone, is told to try again, and makes a new one."""
        with locked(shelf.lock):
            record = shelf.find(RECORD)
            if record is None:
                idle = _age_s(shelf.begun) > BEGUN_LEASE_S
            else:
                idle = _age_s(record) > self._idle_s
            if idle:
                shutil.rmtree(shelf.root)
            return idle

    def _shelf(self, digest: str) -> Shelf:
        return Shelf(self._root / "jobs" / digest)


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except VaultFull as fault:
        raise TreesFull(str(fault)) from fault
    except VaultFault as fault:
        raise TreesFault(str(fault)) from fault
    except OSError as error:
        raise TreesFault(f"the place of directories cannot be used: {error}") from error
