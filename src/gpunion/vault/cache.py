"""Blocks of jobs' directories that a node has fetched, as the vault stores them but without its promises.

Nothing is synced: a block that a power cut damaged is found out when it is read, and fetched again. The least
recently used go first when there are more than the owner allows; one job's directory alone may exceed that,
until it is made.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from gpunion.vault.block_cache import BlockMissing, CacheFault
from gpunion.vault.compression import Buffer
from gpunion.vault.manifest import BadManifest, CorruptBlock, MissingBlock, VaultFault, VaultFull
from gpunion.vault.stores.folder.blocks import Blocks
from gpunion.vault.stores.folder.operations import FileOperations, Unsynced
from gpunion.vault.transfer.download import restore_tree, workers_for
from gpunion.vault.tree import BadTree, FileEntry, check_entries


class DirectoryCache:
    """Implements `vault.block_cache.BlockCache`."""

    def __init__(self, root: Path, *, limit_bytes: int, operations: FileOperations | None = None) -> None:
        self._root = root
        self._limit_bytes = limit_bytes
        self._do = operations or Unsynced()
        self._blocks = Blocks(root, self._do, self._publish, self._relying)
        self._lock = threading.Lock()
        self._users = 0

    def missing(self, names: Collection[str]) -> set[str]:
        self._open()
        try:
            return set(names) - self._blocks.present(names)
        except VaultFault as fault:
            raise CacheFault(str(fault)) from fault

    def put(self, name: str, data: bytes) -> None:
        self._open()
        try:
            self._blocks.put(name, data)
        except VaultFull as fault:
            raise CacheFault("this machine's disk is too full for the job's directory") from fault
        except VaultFault as fault:
            raise CacheFault(f"this machine could not keep the job's directory: {fault}") from fault

    def read(self, name: str) -> bytes:
        try:
            return bytes(self._lend(name))
        except (MissingBlock, CorruptBlock) as fault:
            raise BlockMissing(str(fault)) from fault
        except VaultFault as fault:
            raise CacheFault(str(fault)) from fault

    def _lend(self, name: str) -> Buffer:
        return self._blocks.lend(name)

    def materialise(self, files: Iterable[FileEntry], into: Path) -> None:
        files = tuple(files)
        try:
            check_entries(files)
            restore_tree(self._lend, files, into, workers=workers_for(waiting=False))
        except (MissingBlock, CorruptBlock) as fault:
            raise BlockMissing(str(fault)) from fault
        except (BadTree, BadManifest) as error:
            raise CacheFault(f"the job's directory cannot be made: {error}") from error
        except VaultFault as fault:
            raise CacheFault(str(fault)) from fault

    @contextmanager
    def using(self) -> Iterator[None]:
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users and self._root.is_dir():
                    self._trim()

    def _trim(self) -> None:
        self._clear_leftovers()
        stored = [(path.stat(), path) for path in self._blocks.stored()]
        total_bytes = sum(about.st_size for about, _ in stored)
        for about, path in sorted(stored, key=lambda item: item[0].st_mtime_ns):
            if total_bytes <= self._limit_bytes:
                return
            path.unlink(missing_ok=True)
            total_bytes -= about.st_size

    def _open(self) -> None:
        try:
            (self._root / "tmp").mkdir(mode=0o700, parents=True, exist_ok=True)
            self._blocks.create()
        except OSError as error:
            raise CacheFault(f"{self._root} cannot be used: {error.strerror or error}") from error

    def _publish(self, path: Path, data: bytes | memoryview) -> None:
        temporary = self._root / "tmp" / secrets.token_hex(16)
        try:
            self._do.write_new(temporary, data)
            self._do.rename(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise

    def _relying(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _clear_leftovers(self) -> None:
        for path in (self._root / "tmp").glob("*"):
            path.unlink(missing_ok=True)
