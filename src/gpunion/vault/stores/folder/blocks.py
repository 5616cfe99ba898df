"""Blocks of a directory vault: one file each, named by the BLAKE3 of the plain content, or by a job's key.

    blocks/ab/<hash>      as `codec` packs them
    suspects/<hash>       empty: that block was found damaged, and is to be stored again when it comes along

Here a name is always what a block is stored as.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from blake3 import blake3

from gpunion.vault.compression import Buffer
from gpunion.vault.manifest import BLOCK_SIZE_BYTES, BadManifest, CorruptBlock, MissingBlock
from gpunion.vault.packing import STORED_BYTES_MAX, Packing, PlainPacking, StoredHead
from gpunion.vault.stores.folder.locks import translated
from gpunion.vault.stores.folder.operations import FileOperations
from gpunion.vault.tree import HASH_PATTERN

# Puts bytes under a name, whole or not at all.
Publish = Callable[[Path, Buffer], None]


class Blocks:
    """`relying` keeps the collector away."""

    def __init__(
        self,
        root: Path,
        do: FileOperations,
        publish: Publish,
        relying: Callable[[], AbstractContextManager[None]],
        packing: Packing | None = None,
    ) -> None:
        self._root = root / "blocks"
        self._suspects = root / "suspects"
        self._do = do
        self._publish = publish
        self._relying = relying
        self._packing: Packing = packing or PlainPacking()
        self._durable_folders: set[Path] = set()  # made by whomever, synced by us
        self._made: set[str] = set()  # folders that are known to be there

    def create(self) -> None:
        self._do.make_directory(self._suspects, sync=False)
        self._do.make_directory(self._root)

    def sync(self, names: set[str]) -> None:
        """Make the names of these durable; each file was synced before it got its name."""
        if not names:
            return
        folders = {self.path(name).parent for name in names}
        self._do.sync_directories(sorted(folders))
        if not folders <= self._durable_folders:
            self._do.sync_directory(self._root)
            self._durable_folders |= folders

    def path(self, name: str) -> Path:
        if not HASH_PATTERN.fullmatch(name):
            raise BadManifest(f"{name!r} cannot name a block")
        return self._root.joinpath(name[:2], name)

    def stored(self) -> Iterator[Path]:
        """Every block's file, whatever it holds. What a file server or a person leaves among them is not ours
        to look at."""
        for folder in sorted(self._root.iterdir() if self._root.exists() else ()):
            if len(folder.name) == 2 and folder.is_dir():
                names = sorted(filter(HASH_PATTERN.fullmatch, os.listdir(folder)))
                yield from (folder / name for name in names)

    def present(self, names: Iterable[str], *, renew: bool = True) -> set[str]:
        """Those that can be relied on, as far as a look at their heads tells; young from now on.

        `renew` is for those that no sealed checkpoint names yet: who seals one needs it no more.
        """
        with translated("looking for blocks"), self._relying():
            suspects = self.suspects()
            return {name for name in names if self._rely_on(name, suspects, renew)}

    def put(self, name: str, data: Buffer, *, named: bool = False) -> int:
        with translated("looking for a block"), self._relying():
            suspects = self.suspects()
            if self._rely_on(name, suspects, renew=True):
                return 0  # whatever was offered: it is not needed
        if len(data) > BLOCK_SIZE_BYTES or not (named or self._fits(name, data)):
            raise CorruptBlock(f"the bytes to be stored are not those of {name}")
        stored = self._packing.pack(name, data)
        self._keep(name, stored, suspects)
        return len(stored)

    def put_stored(self, name: str, stored: bytes) -> int:
        """The same for one that was packed elsewhere."""
        if self.present([name]):
            return 0
        self.check_stored(name, stored)
        self._keep(name, stored, self.suspects())
        return len(stored)

    def lend_stored(self, name: str, stored: bytes) -> Buffer:
        """One that was packed elsewhere: kept here as by `put_stored`, and lent as by `lend`."""
        data = self.opened(name, stored)
        self._keep(name, stored, self.suspects())
        return data

    def opened(self, name: str, stored: Buffer) -> Buffer:
        """Verified, and lent."""
        return self._verified(name, self._packing.unpack(name, stored))

    def check_stored(self, name: str, stored: bytes) -> None:
        """As far as that can be done here. CorruptBlock."""
        self.opened(name, stored)

    def read_stored(self, name: str) -> bytes:
        """As it is stored: whoever unpacks it verifies it."""
        with translated("reading a block"):
            try:
                return self._do.read(self.path(name))
            except FileNotFoundError:
                raise MissingBlock(f"the vault does not hold {name}") from None

    def read(self, name: str) -> bytes:
        """Verified. What proves damaged is remembered as such, so that it can be replaced."""
        return bytes(self.lend(name))

    def lend(self, name: str) -> Buffer:
        """The same, but it lies in this thread's room: only until the thread asks for another."""
        try:
            return self.opened(name, self._stored_over(name))
        except CorruptBlock as error:
            self.suspect(name)
            raise CorruptBlock(f"{name}: {error}") from error

    def examine(self, name: str) -> int:
        """Read it and check what can be checked here; how many bytes that were."""
        return len(self.lend(name))

    def head(self, name: str) -> StoredHead:
        """FileNotFoundError; CorruptBlock where it is damaged or cut short."""
        start, size_bytes = self._do.read_start(self.path(name), self._packing.head_bytes)
        head = self._packing.read_head(start)
        if head.stored_bytes != size_bytes:
            raise CorruptBlock("a stored block has another size than its head says")
        return head

    def suspects(self) -> set[str]:
        try:
            return set(os.listdir(self._suspects))
        except FileNotFoundError:
            return set()

    def suspect(self, name: str) -> None:
        """Best effort: a full vault or one that may only be read keeps no such notes."""
        with suppress(OSError):
            self._do.mark(self._suspects / name)

    def clear(self, name: str) -> None:
        self._do.unlink(self._suspects / name)

    def _make_folder(self, folder: Path) -> None:
        try:
            self._do.make_directory(folder, sync=False)
        except FileNotFoundError:  # the first block of a job with a key
            self._do.make_directory(self._root.parent)
            self.create()
            self._do.make_directory(folder, sync=False)

    def _keep(self, name: str, stored: Buffer, suspects: set[str]) -> None:
        with translated("storing a block"):
            path = self.path(name)
            damaged = path.exists()
            self._published(path, stored)
            if damaged:  # at once: a seal takes blocks that its parent has for durable
                self._do.sync_directory(path.parent)
            if damaged or name in suspects:
                self.clear(name)

    def _published(self, path: Path, stored: Buffer) -> None:
        folder = path.name[:2]
        try:
            if folder not in self._made:
                self._make_folder(path.parent)
                self._made.add(folder)
            self._publish(path, stored)
        except OSError:
            self._made.discard(folder)  # a backup may have been restored under us
            raise

    def _rely_on(self, name: str, suspects: set[str], renew: bool) -> bool:
        if name in suspects:
            return False
        try:
            self.head(name)
            if renew:
                self._do.touch(self.path(name))
        except (FileNotFoundError, CorruptBlock):
            return False
        return True

    def _stored_over(self, name: str) -> memoryview:
        with translated("reading a block"):
            try:
                # One byte more than any block has: what is longer is seen to be none.
                return self._do.read_over(self.path(name), "packed", STORED_BYTES_MAX + 1)
            except FileNotFoundError:
                raise MissingBlock(f"the vault does not hold {name}") from None

    def _fits(self, name: str, data: Buffer) -> bool:
        return self._packing.name(blake3(data).hexdigest()) == name

    def _verified(self, name: str, data: Buffer) -> Buffer:
        if not self._fits(name, data):
            raise CorruptBlock("it has other bytes than its name says")
        return data
