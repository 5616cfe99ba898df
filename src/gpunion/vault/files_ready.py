"""States that lie ready, one folder a job, blocks as a vault stores them but without its promises.

    <place>/<job>/blocks/ab/<hash>

A whole job goes at once: with its end, or when others need the room. All of them together never take more
than the owner gives. Nothing is synced; what a power cut damaged is found out when it is read, and fetched
again.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from gpunion.vault.compression import Buffer
from gpunion.vault.manifest import Manifest, Vault, VaultFault
from gpunion.vault.manifests import check, check_id
from gpunion.vault.ready import ReadyFault, ReadyStates
from gpunion.vault.stores.folder.blocks import Blocks
from gpunion.vault.stores.folder.operations import Unsynced
from gpunion.vault.transfer.download import restore_directory, restore_tree, telling, workers_for

PeerRead = Callable[[str], bytes | None]

# A state that was used this lately may still be growing: a single block of another job does not displace it.
IN_USE_S = 600.0


class DirectoryReady:
    """Implements `vault.ready.ReadyStates`."""

    def __init__(self, place: Path, *, limit_bytes: int) -> None:
        self.place = place
        self._limit_bytes = limit_bytes
        self._do = Unsynced()
        self._lock = threading.RLock()
        self._sizes: dict[str, int] = {}  # of jobs that were measured; a job is measured once

    def lacking(self, job_id: str, names: Collection[str]) -> set[str]:
        folder = self._folder(job_id)
        if not folder.is_dir():
            return set(names)
        with suppress(OSError):
            os.utime(folder)
        try:
            return set(names) - self._blocks(job_id).present(names)
        except VaultFault:
            return set(names)

    def put(self, job_id: str, name: str, data: bytes | memoryview) -> None:
        try:
            self._opened(job_id).put(name, data)
        except (VaultFault, OSError) as fault:
            raise ReadyFault(f"cannot keep a block of {job_id} ready: {fault}") from fault

    def put_stored(self, job_id: str, name: str, stored: bytes) -> None:
        try:
            self._opened(job_id).put_stored(name, stored)
        except (VaultFault, OSError) as fault:
            raise ReadyFault(f"cannot keep a block of {job_id} ready: {fault}") from fault

    def opened(self, job_id: str, name: str, stored: bytes) -> bytes:
        blocks = self._blocks(job_id)
        try:
            return bytes(blocks.opened(name, stored))
        except VaultFault as fault:
            raise ReadyFault(f"what came for {name[:12]} is no such block: {fault}") from fault

    def read(self, job_id: str, name: str) -> bytes | None:
        try:
            return self._blocks(job_id).read(name)
        except VaultFault:
            return None

    def open_stored(self, job_id: str, name: str) -> BinaryIO | None:
        try:
            blocks = self._blocks(job_id)
            return open(blocks.path(name), "rb") if blocks.present([name]) else None
        except (OSError, VaultFault):
            return None

    def keep_only(self, job_id: str, names: Collection[str]) -> None:
        self._unlink(job_id, lambda name: name not in names)

    def let_go(self, job_id: str, names: Collection[str]) -> None:
        with self._lock:
            self._unlink(job_id, lambda name: name in names)
            if self._size_bytes(job_id) == 0:
                self.drop(job_id)  # its job may be over: nobody else would remove the empty folder

    def make_room(self, job_id: str, size_bytes: int) -> bool:
        if size_bytes > self._limit_bytes:
            return False
        with self._lock:
            self._folder(job_id).mkdir(mode=0o700, parents=True, exist_ok=True)
            others = sorted((name for name in self.jobs() if name != job_id), key=self._used_s)
            left_bytes = self._limit_bytes - size_bytes - sum(map(self._size_bytes, others))
            for oldest in others:
                if left_bytes >= 0:
                    break
                left_bytes += self._size_bytes(oldest)
                self.drop(oldest)
        return True

    def drop(self, job_id: str) -> None:
        with self._lock:
            shutil.rmtree(self._folder(job_id), ignore_errors=True)
            self._sizes.pop(job_id, None)

    def jobs(self) -> tuple[str, ...]:
        try:
            return tuple(sorted(entry.name for entry in os.scandir(self.place) if entry.is_dir()))
        except OSError:
            return ()

    def _folder(self, job_id: str) -> Path:
        check_id(job_id)
        return self.place / job_id

    def _blocks(self, job_id: str) -> Blocks:
        folder = self._folder(job_id)
        return Blocks(folder, self._do, partial(self._publish, job_id), nullcontext)

    def _opened(self, job_id: str) -> Blocks:
        blocks = self._blocks(job_id)
        (self._folder(job_id) / "tmp").mkdir(mode=0o700, parents=True, exist_ok=True)
        blocks.create()
        return blocks

    def _publish(self, job_id: str, path: Path, data: Buffer) -> None:
        folder = self._folder(job_id)
        temporary = folder / "tmp" / secrets.token_hex(16)
        try:
            self._do.write_new(temporary, data)
            with self._lock:
                more_bytes = len(data) - (path.stat().st_size if path.exists() else 0)
                self._fit(job_id, more_bytes)
                self._do.rename(temporary, path)
                self._sizes[job_id] += more_bytes
                os.utime(folder)
        except (OSError, ReadyFault):
            temporary.unlink(missing_ok=True)
            raise

    def _fit(self, job_id: str, more_bytes: int) -> None:
        """Jobs that nobody used for a while give way to one more block. `ReadyFault`: that will not do."""
        total_bytes = self._size_bytes(job_id) + more_bytes
        others = sorted((name for name in self.jobs() if name != job_id), key=self._used_s)
        total_bytes += sum(map(self._size_bytes, others))
        for oldest in others:
            if total_bytes <= self._limit_bytes or self._used_s(oldest) > time.time() - IN_USE_S:
                break
            total_bytes -= self._size_bytes(oldest)
            self.drop(oldest)
        if total_bytes > self._limit_bytes:
            raise ReadyFault(
                f"no room for a block of {job_id}: {self._limit_bytes} bytes are given for states"
            )

    def _unlink(self, job_id: str, unwanted: Callable[[str], bool]) -> None:
        with self._lock:
            with suppress(OSError):
                for path in self._blocks(job_id).stored():
                    if unwanted(path.name):
                        path.unlink(missing_ok=True)
            self._sizes.pop(job_id, None)

    def _used_s(self, job_id: str) -> float:
        with suppress(OSError):
            return self._folder(job_id).stat().st_mtime
        return 0.0

    def _size_bytes(self, job_id: str) -> int:
        """Whatever vanishes meanwhile takes no room."""
        known = self._sizes.get(job_id)
        if known is not None:
            return known
        total = 0
        with suppress(OSError):
            for path in self._blocks(job_id).stored():
                with suppress(OSError):
                    total += path.stat().st_size
        self._sizes[job_id] = total
        return total


def restore_from_ready(
    vault: Vault,
    ready: ReadyStates,
    manifest: Manifest,
    into: Path,
    *,
    from_peer: PeerRead | None = None,
    told: Callable[[int], None] = lambda size_bytes: None,
) -> int:
    """Like `restore_directory`, but what lies ready is taken from here; returns how many bytes that were.

    `from_peer` is asked next, and the vault for what neither has. All of it is verified by its name."""
    if manifest.sealed is not None:
        restore_directory(vault, manifest, into)  # which says that the key is missing
        return 0
    check(manifest)
    counted = threading.Lock()
    found_bytes = 0

    def read(name: str) -> bytes | memoryview:
        nonlocal found_bytes
        data = ready.read(manifest.job_id, name)
        if data is not None:
            with counted:
                found_bytes += len(data)
            return data
        data = None if from_peer is None else from_peer(name)
        return vault.lend_block(name) if data is None else data

    with vault.hold(manifest.job_id, manifest.checkpoint_id):
        waiting = from_peer is not None or vault.waits_for_blocks()
        restore_tree(telling(read, told), manifest.files, into, workers=workers_for(waiting=waiting))
    return found_bytes
