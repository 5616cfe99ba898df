"""Blocks of a directory vault: one file each, named by the BLAKE3 of the plain content, or by a job's key.

    blocks/ab/<hash>      as `coding` stores them
    suspects/<hash>       empty: that block was found damaged, and is to be stored again when it comes along

A block may be stored as a difference from a base. A base is always whole at that moment, and whoever relies
on a block relies on its base: both are looked for, made young and synced together. A difference takes a name
that is free and replaces nothing: what is whole stays whole for those who took it for their base, however
many store at once. Here a name is always what a block is stored as.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Protocol

from blake3 import blake3

from gpunion.adapters.files import coding
from gpunion.adapters.files.coding import CHAIN_MAX
from gpunion.adapters.files.forms import NUMBERS_BYTES_MIN, Base
from gpunion.adapters.files.locks import translated
from gpunion.adapters.files.operations import FileOperations
from gpunion.adapters.files.packing import STORED_BYTES_MAX, Packing, PlainPacking, StoredHead
from gpunion.adapters.files.pieces import Buffer
from gpunion.domain.tree import HASH_PATTERN
from gpunion.ports.vault import BLOCK_SIZE_BYTES, BadManifest, CorruptBlock, MissingBlock, VaultFault

# Somebody has stored it meanwhile, or this file system knows no second names: then it is stored whole.
NO_NAME_TO_TAKE = (errno.EEXIST, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)


class Publish(Protocol):
    """Puts bytes under a name whole or not at all; FileExistsError where they may not go over others."""

    def __call__(self, path: Path, data: Buffer, *, over: bool) -> None: ...


def _all(start: Buffer) -> int:
    """One byte more than any block has: what is longer is seen to be none."""
    return STORED_BYTES_MAX + 1


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
        folders = {self.path(name).parent for name in self.with_bases(names)}
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

    def put(self, name: str, data: Buffer, like: str | None, *, named: bool = False) -> int:
        with translated("looking for a block"), self._relying():
            suspects = self.suspects()
            if self._rely_on(name, suspects, renew=True):
                return 0  # whatever was offered: it is not needed
        if len(data) > BLOCK_SIZE_BYTES or not (named or self._fits(name, data)):
            raise CorruptBlock(f"the bytes to be stored are not those of {name}")
        with translated("storing a block"):
            path = self.path(name)
            damaged = path.exists()
            # Others may need it as their base: it becomes whole.
            base = None if damaged else self._base(like, name, data)
            stored = self._packing.pack(name, data, base)
            if not self._published(path, stored, over=base is None):
                return self.put(name, data, None, named=True)
            if damaged:  # at once: a seal takes blocks that its parent has for durable
                self._do.sync_directory(path.parent)
            if damaged or name in suspects:
                self.clear(name)
            return len(stored)

    def put_stored(self, name: str, stored: bytes) -> int:
        """The same for one that was packed elsewhere. MissingBlock: its base is not here, or damaged."""
        if self.present([name]):
            return 0
        data = self.opened(name, stored)
        return len(stored) if self._kept(name, stored) else self._repacked(name, data, stored)

    def lend_stored(self, name: str, stored: bytes) -> Buffer:
        """One that was packed elsewhere: kept here as by `put_stored`, and lent as by `lend`."""
        data = self.opened(name, stored)
        if not self._kept(name, stored):
            data = bytes(data)  # packing needs the room it lies in
            self._repacked(name, data, stored)
        return data

    def opened(self, name: str, stored: bytes) -> Buffer:
        """Verified, and lent. Of its base, which has to be here, no more is read than it needs."""
        base = self._packing.read_head(stored).base
        if base is not None and not self.present([base]):
            raise MissingBlock(f"{name} is a difference from {base}, which is not here")
        try:
            return self._verified(name, self._packing.unpack(name, stored, self._base_of()))
        except CorruptBlock:
            if base is not None and not self._is_sound(base):
                raise MissingBlock(f"{name} is a difference from {base}, which is damaged here") from None
            raise

    def opened_by(self, name: str, stored: bytes, base_start: bytes) -> Buffer:
        """The same of one whose base is not here, by what `read_start` gave of that elsewhere. CorruptBlock
        also where it needs more."""
        packed = coding.Packed.of(base_start)
        return self._verified(name, self._packing.unpack(name, stored, lambda base: packed))

    def read_stored(self, name: str) -> bytes:
        """As it is stored: whoever unpacks it verifies it."""
        with translated("reading a block"):
            try:
                return self._do.read(self.path(name))
            except FileNotFoundError:
                raise MissingBlock(f"the vault does not hold {name}") from None

    def read_start(self, name: str) -> bytes:
        """As much of it as a difference from it needs, where both are stored alike."""
        return bytes(self._stored_over(name, "packed", coding.enough_for_a_difference))

    def read(self, name: str) -> bytes:
        """Verified. What proves damaged is remembered as such, so that it can be replaced."""
        return bytes(self.lend(name))

    def lend(self, name: str) -> Buffer:
        """The same, but it lies in this thread's room: only until the thread asks for another."""
        try:
            return self._verified(name, self._plain(name))
        except CorruptBlock as error:
            self._blame(name)
            raise CorruptBlock(f"{name}: {error}") from error

    def examine(self, name: str) -> int:
        """Read it and check what can be checked here; how many bytes that were."""
        return len(self.lend(name))

    def unpacked(self, name: str, stored: bytes, plain_of: Callable[[str], bytes]) -> bytes:
        """Verified, of one that lies elsewhere."""
        data = self._packing.decode(name, stored, plain_of)
        self._verified(name, data)
        return data

    def head(self, name: str) -> StoredHead:
        """FileNotFoundError; CorruptBlock where it is damaged or cut short."""
        start, size_bytes = self._do.read_start(self.path(name), self._packing.head_bytes_max)
        head = self._packing.read_head(start)
        if head.stored_bytes != size_bytes:
            raise CorruptBlock("a stored block has another size than its head says")
        return head

    def with_bases(self, names: Iterable[str]) -> set[str]:
        """All that reading them needs. A damaged block needs nothing: it cannot be read."""
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            found.add(name)
            with suppress(FileNotFoundError, CorruptBlock):
                base = self.head(name).base
                if base is not None:
                    waiting.append(base)
        return found

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

    def _published(self, path: Path, stored: Buffer, *, over: bool) -> bool:
        """False: not over what is there, and there is no other way here."""
        folder = path.name[:2]
        try:
            if folder not in self._made:
                self._make_folder(path.parent)
                self._made.add(folder)
            self._publish(path, stored, over=over)
        except OSError as error:
            self._made.discard(folder)  # a backup may have been restored under us
            if over or error.errno not in NO_NAME_TO_TAKE:
                raise
            return False
        return True

    def _rely_on(self, name: str, suspects: set[str], renew: bool) -> bool:
        chain: list[str] = []
        following: str | None = name
        while following is not None:
            if following in suspects or len(chain) >= CHAIN_MAX:
                return False
            chain.append(following)
            try:
                following = self.head(following).base
            except (FileNotFoundError, CorruptBlock):
                return False
        try:
            for link in chain if renew else ():
                self._do.touch(self.path(link))
        except FileNotFoundError:
            return False
        return True

    def _base(self, like: str | None, name: str, data: Buffer) -> Base | None:
        """The whole block behind `like`, if it is near enough, similar, intact and not the block itself."""
        if like is None or len(data) < NUMBERS_BYTES_MIN:
            return None
        try:
            head = self.head(like)
            base, distance = head.base or like, head.distance + 1
            if distance > coding.DISTANCE_MAX or base == name or not self.present([base]):
                return None
            if self.head(base).base is not None:
                return None
            if not self._packing.is_promising(base, data, self._stored_over(base, "packed")):
                return None
            # Verified: a difference from what it should not be would be lost when that is mended.
            return Base(name=base, data=self.lend(base), distance=distance)
        except (FileNotFoundError, VaultFault):
            return None  # it would only have saved space

    def _kept(self, name: str, stored: bytes) -> bool:
        """False: not as it is. It is there and damaged, and others may need it whole as their base; or its
        base is itself a difference here."""
        with translated("storing a block"):
            path = self.path(name)
            base = self._packing.read_head(stored).base
            if path.exists() or (base is not None and self.head(base).base is not None):
                return False
            return self._published(path, stored, over=base is None)

    def _repacked(self, name: str, data: Buffer, stored: bytes) -> int:
        return self.put(name, bytes(data), self._packing.read_head(stored).base, named=True)

    def _is_sound(self, name: str) -> bool:
        try:
            self.lend(name)  # which blames it, if it is to blame
        except VaultFault:
            return False
        return True

    def _plain(self, name: str) -> Buffer:
        return self._packing.unpack(name, self._stored_over(name, "packed"), self._base_of())

    def _base_of(self) -> coding.BaseOf:
        bases = count()

        def base_of(base: str) -> coding.Packed:
            return coding.Packed(partial(self._stored_over, base, f"packed base {next(bases)}"))

        return base_of

    def _stored_over(self, name: str, use: str, enough: coding.Enough = _all) -> memoryview:
        with translated("reading a block"):
            try:
                return self._do.read_over(self.path(name), use, self._packing.head_bytes_max, enough)
            except FileNotFoundError:
                raise MissingBlock(f"the vault does not hold {name}") from None

    def _blame(self, name: str) -> None:
        """A difference is as good as its base: if that one is damaged, the block itself may be intact."""
        try:
            base = self.head(name).base
        except (FileNotFoundError, CorruptBlock):
            base = None
        if base is None or self._is_sound(base):
            self.suspect(name)

    def _fits(self, name: str, data: Buffer) -> bool:
        return self._packing.name(blake3(data).hexdigest()) == name

    def _verified(self, name: str, data: Buffer) -> Buffer:
        if not self._fits(name, data):
            raise CorruptBlock("it has other bytes than its name says")
        return data
