"""A vault in a directory, on a local disk or on NFS, shared by any number of machines.

    vault.json                                  format
    blocks/ab/<hash>  suspects/<hash>           see `blocks`
    jobs/<job>/epoch.json  lock  begun          newest epoch; upload under way (its age is the file's)
    jobs/<job>/manifests/<epoch>-<step>-<id>.json    sealed checkpoints
    jobs/<job>/damaged/                         those that `repair` took out of view
    jobs/<job>/blocks/  suspects/               of a job with a key: its blocks are its own, see `packing`
    tmp/                                        files on their way to their name
    collect.lock                                shared by those who rely on blocks, alone for the collector

Whatever is visible under its name is whole: written under tmp/, synced, then renamed. A seal checks the epoch
and publishes under the job's lock, and looks for the blocks and publishes under the shared collect lock, so
neither a newer epoch nor a collection can come in between.
"""

from __future__ import annotations

import copy
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from gpunion.vault import manifests as manifest_format
from gpunion.vault.compression import Buffer
from gpunion.vault.disk_quota import check_room
from gpunion.vault.manifest import (
    KEEP_AT_LEAST,
    BadManifest,
    Garbage,
    JobKey,
    Manifest,
    MissingBlock,
    NothingSavedYet,
    OldEpoch,
    UnknownCheckpoint,
    WrongKey,
)
from gpunion.vault.manifests import block_names
from gpunion.vault.packing import ForeignPacking, Packing, PlainPacking, SealedPacking, open_all
from gpunion.vault.stores.folder.blocks import Blocks
from gpunion.vault.stores.folder.collector import COLLECT_LOCK, collect, collected_s
from gpunion.vault.stores.folder.foreign_blocks import ForeignBlocks
from gpunion.vault.stores.folder.locks import hold_file, if_not_held, locked, translated
from gpunion.vault.stores.folder.operations import FileOperations
from gpunion.vault.stores.folder.records import Shelf
from gpunion.vault.stores.folder.vault_format import FORMAT_FILE, check_format, format_record

# Unreferenced blocks stay this long, also without an upload that is known to be under way.
GRACE_S = 3600.0
# Where there is no room left. Who has begun an upload is protected by that; who has not hears it at the seal.
GRACE_IN_NEED_S = 10.0
FRESH_MAX = 100_000  # beyond it a block that a disk lost and got again may fall to a power cut
BEGUN_LEASE_S = 24 * 3600.0  # an upload that takes longer has died
# One that was given up leaves its sign behind, which would keep a full vault full for all that time.
BEGUN_LEASE_IN_NEED_S = 2 * 3600.0


class DirectoryVault:
    """Implements `vault.manifest.Vault`."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        create: bool = True,
        grace_s: float = GRACE_S,
        operations: FileOperations | None = None,
        allow: Callable[[int], None] = lambda more_bytes: None,
        freed: Callable[[int], None] = lambda fewer_bytes: None,
    ) -> None:
        """`allow` is asked before so many bytes are stored, and raises VaultFull where they may not be.
        `freed` hears of what was collected."""
        self._root = Path(root)
        self._allow = allow
        self._freed = freed
        self._grace_s = grace_s
        self._do = operations or FileOperations()
        self._fresh: set[str] = set()  # blocks stored through us that no seal has made durable yet
        self._key_of: str | None = None
        self.packing: Packing = PlainPacking()
        self.blocks = self._common = self._blocks(Blocks, self._root, self.packing)
        with translated(f"opening the vault {self._root}"):
            if create and not (self._root / FORMAT_FILE).exists():
                self._create()
            if not (self._root / FORMAT_FILE).exists():
                raise NothingSavedYet(f"{self._root} is no vault, or nothing was saved there yet")
            check_format(self._root, self._do.read(self._root / FORMAT_FILE))

    def describe(self) -> str:
        return f"directory {self._root}"

    def check_room(self) -> None:
        with translated(f"looking at the vault {self._root}"):
            check_room(self._root)

    def keyed(self, key: JobKey) -> DirectoryVault:
        view = copy.copy(self)
        view._key_of = key.job_id
        view.packing = SealedPacking(key)
        view.blocks = self._blocks(Blocks, self._shelf(key.job_id).root, view.packing)
        return view

    def foreign_blocks(self, job_id: str) -> Blocks:
        """Those of a job that has a key, as everybody else may handle them."""
        manifest_format.check_id(job_id)
        return self._blocks(ForeignBlocks, self._root / "jobs" / job_id, ForeignPacking())

    def begin(self, job_id: str, epoch: int) -> None:
        self._begin(job_id, epoch, self._advance)

    def begin_copy(self, job_id: str, epoch: int) -> None:
        """Of a checkpoint that another place has sealed; its run may be an old one by now."""
        self._begin(job_id, epoch, self._advance_if_newer)

    def has(self, hashes: Iterable[str]) -> set[str]:
        plain_names = {self.packing.name(plain_name): plain_name for plain_name in hashes}
        return {plain_names[name] for name in self.blocks.present(plain_names)}

    def put(self, block_hash: str, data: Buffer, *, named: bool = False) -> int:
        return self.blocks.put(self.packing.name(block_hash), data, named=named)

    def seal(self, manifest: Manifest) -> None:
        manifest_format.check(manifest)
        self._seal(self.packing.close(manifest), self._advance)

    def adopt(self, manifest: Manifest) -> None:
        """Seal what another place has sealed, as it is stored there, after `begin_copy`. Old runs are not
        refused: their checkpoints sort below those of newer ones."""
        manifest_format.check(manifest)
        self._seal(manifest, self._check_begun)

    def latest(self, job_id: str) -> Manifest | None:
        with translated(f"reading checkpoints of {job_id}"):
            paths = self._shelf(job_id).sealed()
            return self.packing.open(self._read(paths[-1])) if paths else None

    def get(self, job_id: str, checkpoint_id: str) -> Manifest:
        with translated(f"reading {checkpoint_id}"):
            path = self._shelf(job_id).find(checkpoint_id)
            if path is None:
                raise UnknownCheckpoint(f"{job_id} has no checkpoint {checkpoint_id}")
            return self.packing.open(self._read(path))

    def manifests(self, job_id: str) -> tuple[Manifest, ...]:
        with translated(f"reading checkpoints of {job_id}"):
            closed = (found for path in self._shelf(job_id).sealed() if (found := self._readable(path)))
            return tuple(open_all(self.packing, closed))

    def read_block(self, block_hash: str) -> bytes:
        return self.blocks.read(self.packing.name(block_hash))

    def lend_block(self, block_hash: str) -> Buffer:
        return self.blocks.lend(self.packing.name(block_hash))

    def waits_for_blocks(self) -> bool:
        return False

    @contextmanager
    def hold(self, job_id: str, checkpoint_id: str) -> Iterator[None]:
        # A lock on the manifest itself: it needs no space in a full vault, and dies with its holder.
        with translated(f"holding {checkpoint_id}"):
            path = self._shelf(job_id).find(checkpoint_id)
            if path is None:
                raise UnknownCheckpoint(f"{job_id} has no checkpoint {checkpoint_id}")
            lock = hold_file(path)
        try:
            yield
        finally:
            lock.close()

    def forget(self, job_id: str, keep: int) -> tuple[str, ...]:
        if keep < KEEP_AT_LEAST:
            raise ValueError(f"a vault keeps at least {KEEP_AT_LEAST} checkpoints of a job")
        with translated(f"forgetting checkpoints of {job_id}"):
            shelf = self._shelf(job_id)
            if not shelf.sealed():
                return ()
            with locked(shelf.lock):
                return self._forget(shelf, keep)

    def collect_garbage(self, *, in_need: bool = False) -> Garbage:
        with translated("collecting garbage"):
            return self._collect_garbage(in_need)

    def _collect_garbage(self, in_need: bool) -> Garbage:
        asked_s = collected_s(self._root)
        with locked(self._root / COLLECT_LOCK):
            if in_need and collected_s(self._root) != asked_s:
                return Garbage(blocks=0, stored_bytes=0)  # somebody else did it while we waited for our turn
            garbage = collect(
                self._root,
                self._do,
                self._common,
                lambda shelf: self.foreign_blocks(shelf.root.name),
                self._read,
                grace_s=min(self._grace_s, GRACE_IN_NEED_S) if in_need else self._grace_s,
                begun_lease_s=BEGUN_LEASE_IN_NEED_S if in_need else BEGUN_LEASE_S,
            )
            self._freed(garbage.stored_bytes)
            return garbage

    def shelves(self) -> list[Shelf]:
        """Of every job that has one."""
        with translated("looking for jobs"):
            return [Shelf(path) for path in sorted((self._root / "jobs").iterdir()) if path.is_dir()]

    def stored(self) -> Iterator[Path]:
        """Every block's file, the common ones and those of jobs with a key."""
        yield from self._common.stored()
        for shelf in self.shelves():
            yield from self.foreign_blocks(shelf.root.name).stored()

    def read_manifest(self, path: Path) -> Manifest:
        """As it is stored. BadManifest, FileNotFoundError."""
        return self._read(path)

    def blocks_of(self, manifest: Manifest) -> Blocks:
        """Where the blocks of a manifest are, as it is stored."""
        return self._common if manifest.sealed is None else self.foreign_blocks(manifest.job_id)

    def set_aside(self, job_id: str, record: str) -> bool:
        """Take a sealed checkpoint out of view, for people to look at; False while somebody holds it."""
        with translated(f"setting {record} aside"):
            shelf = self._shelf(job_id)
            with locked(shelf.lock), if_not_held(shelf.manifests / record) as free:
                if free:
                    self._do.make_directory(shelf.damaged)
                    self._do.rename(shelf.manifests / record, shelf.damaged / record)
                    self._do.sync_directory(shelf.manifests)
                return free

    def mend_epoch(self, job_id: str) -> int:
        """In place of a damaged record, the newest epoch that anything here is named after."""
        with translated(f"mending the epoch record of {job_id}"):
            shelf = self._shelf(job_id)
            with locked(shelf.lock):
                epoch = shelf.likely_epoch()
                self._replace(shelf.epoch_file, shelf.epoch_record(epoch))
                return epoch

    def _create(self) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        for name in ("jobs", "tmp"):
            self._do.make_directory(self._root / name)
        self._common.create()
        # Last: a vault is whole or not one.
        self._replace(self._root / FORMAT_FILE, format_record())

    def _shelf(self, job_id: str, *, create: bool = False) -> Shelf:
        manifest_format.check_id(job_id)
        if self._key_of not in (None, job_id):
            raise WrongKey(f"the key of {self._key_of} is not for {job_id}")
        shelf = Shelf(self._root / "jobs" / job_id)
        if create:
            for path in (shelf.root, shelf.manifests):
                self._do.make_directory(path)
        return shelf

    def _relying_on_blocks(self) -> AbstractContextManager[None]:
        return locked(self._root / COLLECT_LOCK, shared=True)

    def _begin(self, job_id: str, epoch: int, advance: Callable[[Shelf, int], None]) -> None:
        with translated(f"beginning epoch {epoch} of {job_id}"):
            shelf = self._shelf(job_id, create=True)
            with locked(shelf.lock):
                advance(shelf, epoch)
                # Not synced: should this machine lose its power, the upload is lost with it.
                self._do.renew(shelf.begun)

    def _seal(self, manifest: Manifest, advance: Callable[[Shelf, int], None]) -> None:
        with translated(f"sealing {manifest.checkpoint_id}"):
            shelf = self._shelf(manifest.job_id, create=True)
            with locked(shelf.lock):
                if not self._sealed_before(shelf, manifest):
                    advance(shelf, manifest.epoch)
                    with self._relying_on_blocks():
                        self._publish(shelf, manifest)
                self._do.unlink(shelf.begun)

    def _advance(self, shelf: Shelf, epoch: int) -> None:
        """Under the job's lock."""
        newest = shelf.epoch()
        if newest is not None and epoch < newest:
            raise OldEpoch(f"epoch {epoch} of {shelf.root.name}: epoch {newest} has begun")
        if epoch != newest:
            self._replace(shelf.epoch_file, shelf.epoch_record(epoch))

    def _advance_if_newer(self, shelf: Shelf, epoch: int) -> None:
        newest = shelf.epoch()
        self._advance(shelf, epoch if newest is None else max(epoch, newest))

    def _check_begun(self, shelf: Shelf, epoch: int) -> None:
        """A copy is of a run that has begun: what it says of itself lets nobody else be refused."""
        newest = shelf.epoch()
        if newest is None or epoch > newest:
            raise BadManifest(f"a copy of epoch {epoch} of {shelf.root.name}, which has not begun here")

    def _sealed_before(self, shelf: Shelf, manifest: Manifest) -> bool:
        path = shelf.find(manifest.checkpoint_id)
        if path is None:
            return False
        if self._read(path) != manifest:
            raise BadManifest(f"{manifest.checkpoint_id} is sealed with another content")
        self._do.sync_directory(shelf.manifests)  # whoever published it may have been cut before this
        return True

    def _publish(self, shelf: Shelf, manifest: Manifest) -> None:
        """`manifest` and those of `_read` are as they are stored."""
        names, blocks = block_names(manifest), self.blocks_of(manifest)
        missing = sorted(names - blocks.present(names, renew=False))
        if missing:
            raise MissingBlock(f"{manifest.checkpoint_id} lacks {len(missing)} blocks, such as {missing[0]}")
        # Also those of an earlier try that was cut. Those of a sealed parent are durable already: a sync of a
        # directory without changes still empties the disk's cache, which takes milliseconds.
        parent = shelf.find(manifest.parent) if manifest.parent is not None else None
        sealed = self._readable(parent) if parent is not None else None
        durable = block_names(sealed) if sealed is not None else set()
        fresh = names & self._fresh  # also what the parent had lost since
        self._replace(
            shelf.path_of(manifest),
            manifest_format.encode(manifest),
            before_renaming=lambda: blocks.sync(names - durable | fresh),
        )
        self._fresh -= fresh

    def _forget(self, shelf: Shelf, keep: int) -> tuple[str, ...]:
        """Only those count as kept that can be read, with the key if we have it. Under the job's lock."""
        kept, dropped = 0, []
        for path in reversed(shelf.sealed()):
            if kept < keep:
                manifest = self._readable(path)
                kept += manifest is not None and self._opens(manifest)
                continue
            with if_not_held(path) as free:
                if free:
                    self._do.unlink(path)
                    dropped.append(Shelf.checkpoint_id(path))
        self._do.sync_directory(shelf.manifests)
        return tuple(dropped)

    def _read(self, path: Path) -> Manifest:
        shelf = Shelf(path.parent.parent)
        try:
            manifest = manifest_format.decode(self._do.read(path))
            shelf.check_owner(manifest.job_id)
        except BadManifest as error:
            raise type(error)(f"{path.name}: {error}") from error
        if shelf.path_of(manifest).name != path.name:
            raise BadManifest(f"{path.name}: it is the manifest of {manifest.checkpoint_id}, renamed")
        return manifest

    def _readable(self, path: Path) -> Manifest | None:
        try:
            return self._read(path)
        except (BadManifest, FileNotFoundError):
            return None

    def _opens(self, manifest: Manifest) -> bool:
        try:
            self.packing.open(manifest)
        except (BadManifest, WrongKey):
            return False
        return True

    def _blocks(self, kind: type[Blocks], root: Path, packing: Packing) -> Blocks:
        return kind(root, self._do, self._publish_block, self._relying_on_blocks, packing)

    def _publish_block(self, path: Path, data: Buffer) -> None:
        self._allow(len(data))
        # The seal syncs the directories, once for all blocks.
        self._replace(path, data, sync=False)
        if len(self._fresh) >= FRESH_MAX:
            self._fresh.clear()
        self._fresh.add(path.name)

    def _replace(
        self,
        path: Path,
        data: Buffer,
        *,
        sync: bool = True,
        before_renaming: Callable[[], None] = lambda: None,
    ) -> None:
        temporary = self._root.joinpath("tmp", secrets.token_hex(16))
        try:
            self._do.write_new(temporary, data)
            before_renaming()
            self._do.rename(temporary, path)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        if sync:
            self._do.sync_directory(path.parent)
