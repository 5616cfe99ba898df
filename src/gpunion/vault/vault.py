"""A vault that is elsewhere, with a mirror here of what this machine has sent or fetched.

The mirror is only a memory: it answers for what need not be fetched. Nothing is durable before the desk has
sealed it, and nothing is synced here. Whatever is wrong with the mirror, a full disk for one, costs bytes on
the wire and no checkpoint.
"""

from __future__ import annotations

import copy
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpunion.vault import manifests as manifest_format
from gpunion.vault.compression import Buffer
from gpunion.vault.interfaces import HOLD_S, VaultDesk
from gpunion.vault.manifest import (
    KEEP_AT_LEAST,
    BadManifest,
    CorruptBlock,
    Garbage,
    JobKey,
    Manifest,
    UnknownCheckpoint,
    VaultFault,
    VaultUnavailable,
)
from gpunion.vault.packing import open_all
from gpunion.vault.stores.folder.operations import Unsynced
from gpunion.vault.stores.folder.store import DirectoryVault

# Blocks of an upload that is under way here are young; nobody else uses this mirror.
MIRROR_GRACE_S = 600.0
LOOKS_PER_LIMIT = 8


class MirrorVault:
    """Implements `vault.manifest.Vault`."""

    def __init__(self, desk: VaultDesk, root: Path, *, limit_bytes: int) -> None:
        """`limit_bytes`: what the mirror may take of this machine's disk, as soon as uploads are over; what
        was fetched in the last ten minutes comes on top."""
        self._desk = desk
        self._mirror = _memory_at(root)
        self._limit_bytes = limit_bytes
        self._next_look = _NextLook(limit_bytes // LOOKS_PER_LIMIT)
        self._own: str | None = None  # the job whose key we have

    def describe(self) -> str:
        return self._desk.describe()

    def keyed(self, key: JobKey) -> MirrorVault:
        """On this machine's disk, too, everything is encrypted."""
        view = copy.copy(self)
        view._mirror = self._mirror.keyed(key)
        view._own = key.job_id
        return view

    def begin(self, job_id: str, epoch: int) -> None:
        self._desk.begin(job_id, epoch)

    def has(self, hashes: Iterable[str]) -> set[str]:
        plain_names = {self._stored_as(plain_name): plain_name for plain_name in hashes}
        return {plain_names[name] for name in self._desk.has(tuple(plain_names), self._own)}

    def put(self, block_hash: str, data: Buffer, *, named: bool = False) -> int:
        name = self._stored_as(block_hash)
        if self._desk.has((name,), self._own):
            return 0
        stored = self._packed(name, data, named)
        try:
            self._desk.put(name, stored, self._own)
        except CorruptBlock:  # the mirror is damaged: this one goes as it is
            self._mirror.blocks.suspect(name)
            stored = bytes(self._mirror.packing.pack(name, data))
            self._desk.put(name, stored, self._own)
        return len(stored)

    def seal(self, manifest: Manifest) -> None:
        manifest_format.check(manifest)
        closed = self._mirror.packing.close(manifest)
        self._desk.seal(manifest.job_id, manifest_format.encode(closed))
        with suppress(VaultFault):  # sealed here too, so that the mirror keeps what the next save builds on
            self._mirror.seal(manifest)
        with suppress(VaultFault):  # also where not: what the desk had already need not be here
            self._mirror.forget(manifest.job_id, KEEP_AT_LEAST)
            self._trim(manifest.job_id)

    def latest(self, job_id: str) -> Manifest | None:
        found = self._desk.latest(job_id)
        return None if found is None else self._manifest(found)

    def get(self, job_id: str, checkpoint_id: str) -> Manifest:
        for manifest in self.manifests(job_id):
            if manifest.checkpoint_id == checkpoint_id:
                return manifest
        raise UnknownCheckpoint(f"{job_id} has no checkpoint {checkpoint_id}")

    def manifests(self, job_id: str) -> tuple[Manifest, ...]:
        return tuple(open_all(self._mirror.packing, self._closed(job_id)))

    def read_block(self, block_hash: str) -> bytes:
        return bytes(self.lend_block(block_hash))

    def lend_block(self, block_hash: str) -> Buffer:
        name = self._stored_as(block_hash)
        with suppress(VaultFault):
            return self._mirror.blocks.lend(name)
        return self._fetched(name)

    def waits_for_blocks(self) -> bool:
        return True

    @contextmanager
    def hold(self, job_id: str, checkpoint_id: str) -> Iterator[None]:
        hold = Hold(self._desk, job_id, checkpoint_id)
        over = threading.Event()
        renewing = threading.Thread(target=_renew, args=(hold, over), daemon=True)
        renewing.start()
        try:
            yield
        finally:
            over.set()
            hold.release()

    def forget(self, job_id: str, keep: int) -> tuple[str, ...]:
        with suppress(VaultFault):
            self._mirror.forget(job_id, KEEP_AT_LEAST)
        return self._desk.forget(job_id, keep if self._own is None else self._so_many_that_open(job_id, keep))

    def collect_garbage(self, *, in_need: bool = False) -> Garbage:
        with suppress(VaultFault):
            self._collect()
        return self._desk.collect_garbage()

    def _stored_as(self, plain_name: str) -> str:
        return self._mirror.packing.name(plain_name)

    def _closed(self, job_id: str) -> list[Manifest]:
        """As they lie there, oldest first."""
        found = []
        for data in self._desk.sealed(job_id):
            with suppress(BadManifest):
                found.append(manifest_format.decode(data))
        return found

    def _so_many_that_open(self, job_id: str, keep: int) -> int:
        """The desk has no key, and would count what nobody can open among those that it keeps."""
        closed = self._closed(job_id)
        sound = {manifest.checkpoint_id for manifest in open_all(self._mirror.packing, closed)}
        for count, manifest in enumerate(reversed(closed), start=1):
            keep -= manifest.checkpoint_id in sound
            if not keep:
                return count
        return max(len(closed), KEEP_AT_LEAST)

    def _manifest(self, data: bytes) -> Manifest:
        return self._mirror.packing.open(manifest_format.decode(data))

    def _packed(self, name: str, data: Buffer, named: bool) -> bytes:
        """Names from here on are what a block is stored as."""
        try:
            is_new = self._mirror.blocks.put(name, data, named=named) > 0
        except CorruptBlock:
            raise  # these are not the bytes of that name; where there is a key the desk could not tell
        except VaultFault:
            return bytes(self._mirror.packing.pack(name, data))
        try:
            if not is_new:  # what lies here from before may be damaged
                self._mirror.blocks.examine(name)
            return self._mirror.blocks.read_stored(name)
        except VaultFault:
            return bytes(self._mirror.packing.pack(name, data))

    def _fetched(self, name: str) -> Buffer:
        """Lent, as by `lend_block`."""
        stored = self._desk.fetch(name, self._own)
        try:
            return self._opened(name, stored)
        except CorruptBlock as error:
            self._desk.doubt(name, self._own)
            raise CorruptBlock(f"{name}: {error}") from error

    def _opened(self, name: str, stored: bytes) -> Buffer:
        blocks = self._mirror.blocks
        try:
            data = blocks.lend_stored(name, stored)
        except CorruptBlock:
            raise
        except VaultFault:  # there is no room for it here
            return blocks.opened(name, stored)
        if self._next_look.is_due(len(stored)) and self._is_over_limit():
            with suppress(VaultFault):
                self._collect()
        return data

    def _trim(self, newest_job: str) -> None:
        """All but the newest job's blocks go: the others were saved here longer ago."""
        if not self._is_over_limit():
            return
        for shelf in self._mirror.shelves():
            if shelf.root.name != newest_job:
                for path in shelf.sealed():
                    path.unlink(missing_ok=True)
        self._collect()

    def _collect(self) -> None:
        try:
            self._mirror.collect_garbage()
        except BadManifest:  # a power cut has damaged it, and it would keep everything for ever
            self._drop_unreadable()
            self._mirror.collect_garbage()

    def _drop_unreadable(self) -> None:
        for shelf in self._mirror.shelves():
            for path in shelf.sealed():
                try:
                    self._mirror.read_manifest(path)
                except (BadManifest, FileNotFoundError):
                    path.unlink(missing_ok=True)

    def _is_over_limit(self) -> bool:
        return sum(map(_size_bytes, self._mirror.stored())) > self._limit_bytes


class _NextLook:
    """Measuring the mirror reads every file's size: now and then, by what was fetched. First at once, since
    an earlier process may have left much."""

    def __init__(self, every_bytes: int) -> None:
        self._every_bytes = every_bytes
        self._left_bytes = 0
        self._lock = threading.Lock()

    def is_due(self, fetched_bytes: int) -> bool:
        with self._lock:
            self._left_bytes -= fetched_bytes
            due = self._left_bytes <= 0
            if due:
                self._left_bytes = self._every_bytes
            return due


def _memory_at(root: Path) -> DirectoryVault:
    """Made anew where a power cut has damaged what says that it is one, or another version has written it."""
    try:
        return DirectoryVault(root, grace_s=MIRROR_GRACE_S, operations=Unsynced())
    except VaultUnavailable as fault:
        if isinstance(fault.__cause__, OSError):
            raise  # the disk's trouble: what is there may be of use later
        shutil.rmtree(root, ignore_errors=True)
        return DirectoryVault(root, grace_s=MIRROR_GRACE_S, operations=Unsynced())


class Hold:
    def __init__(self, desk: VaultDesk, job_id: str, checkpoint_id: str) -> None:
        self._desk = desk
        self._what = job_id, checkpoint_id
        self._lock = threading.Lock()
        self._name = desk.hold(*self._what)

    def renew(self) -> None:
        """Who keeps it remembers no holds from before a restart: then it is asked for again."""
        with self._lock, suppress(VaultFault):
            try:
                self._desk.renew(self._name)
            except UnknownCheckpoint:
                self._name = self._desk.hold(*self._what)

    def release(self) -> None:
        with self._lock, suppress(VaultFault):  # it ends by itself
            self._desk.release(self._name)


def _renew(hold: Hold, over: threading.Event, every_s: float = HOLD_S / 4) -> None:
    while not over.wait(every_s):
        hold.renew()


def _size_bytes(path: Path) -> int:
    """0 where it has gone meanwhile."""
    try:
        return path.stat().st_size
    except OSError:
        return 0
