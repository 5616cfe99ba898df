"""A directory vault as other machines reach it: bytes in, bytes out, the vault's own rules."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import BinaryIO

from gpunion.text import is_of_run
from gpunion.vault import manifests as manifest_format
from gpunion.vault.interfaces import HOLD_S, anything, everything
from gpunion.vault.manifest import (
    BadManifest,
    CorruptBlock,
    Garbage,
    Manifest,
    MissingBlock,
    UnknownCheckpoint,
    VaultFull,
)
from gpunion.vault.stores.folder.blocks import Blocks
from gpunion.vault.stores.folder.locks import translated
from gpunion.vault.stores.folder.store import DirectoryVault

# Looking for garbage reads the whole vault; forgetting happens after every save.
COLLECT_EVERY_S = 900.0


@dataclass(slots=True)
class _Hold:
    keeping: ExitStack
    until_s: float


class _NowAndThen:
    def __init__(self, last_s: float | None) -> None:
        self._last_s = last_s
        self._lock = threading.Lock()

    def is_due(self) -> bool:
        """Of those who ask at once, for one of them."""
        with self._lock:
            due = self._last_s is None or time.monotonic() - self._last_s >= COLLECT_EVERY_S
            if due:
                self._last_s = time.monotonic()
            return due


class DirectoryDesk:
    """Implements `vault.interfaces.JudgedDesk`. Any number of threads at once."""

    def __init__(
        self,
        vault: DirectoryVault,
        may_begin: Callable[[], None] = lambda: None,
        judge: Callable[[Manifest], None] = anything,
    ) -> None:
        """`may_begin` raises VaultFull where whoever lends the disk would take no beginning. `judge` minds
        what is sealed, where whoever asks for it says nothing of that."""
        self._vault = vault
        self._judge = judge
        self._may_begin = may_begin
        self._holds: dict[str, _Hold] = {}
        self._lock = threading.Lock()
        self._routine, self._in_need = _NowAndThen(time.monotonic()), _NowAndThen(None)

    def describe(self) -> str:
        return self._vault.describe()

    def check_room(self) -> None:
        """While jobs are kept away from it, nobody saves, and nobody but this looks for garbage."""
        try:
            self._check_room()
        except VaultFull:
            if not self._in_need.is_due():
                raise
            self._vault.collect_garbage(in_need=True)
            self._check_room()

    def begin(self, job_id: str, epoch: int) -> None:
        self._vault.begin(job_id, epoch)

    def has(self, names: Collection[str], job_id: str | None = None) -> set[str]:
        return self._blocks(job_id).present(names)

    def put(self, name: str, stored: bytes, job_id: str | None = None) -> None:
        self._blocks(job_id).put_stored(name, stored)

    def fetch(self, name: str, job_id: str | None = None) -> bytes:
        return self._blocks(job_id).read_stored(name)

    def doubt(self, name: str, job_id: str | None = None) -> None:
        with suppress(CorruptBlock, MissingBlock):  # reading it has noted as much
            self._blocks(job_id).examine(name)

    def seal(
        self, job_id: str, manifest: bytes | BinaryIO, judge: Callable[[Manifest], None] | None = None
    ) -> None:
        self._vault.seal(_of_job(job_id, manifest, judge or self._judge))

    def begin_copy(self, job_id: str, epoch: int) -> None:
        self._vault.begin_copy(job_id, epoch)

    def adopt(
        self, job_id: str, manifest: bytes | BinaryIO, judge: Callable[[Manifest], None] | None = None
    ) -> None:
        self._vault.adopt(_of_job(job_id, manifest, judge or self._judge))

    def latest(self, job_id: str) -> bytes | None:
        found = self._vault.latest(job_id)
        return None if found is None else manifest_format.encode(found)

    def sealed(self, job_id: str, shown: Callable[[Manifest], bool] = everything) -> list[bytes]:
        found = self._vault.manifests(job_id)
        return [manifest_format.encode(manifest) for manifest in found if shown(manifest)]

    def hold(self, job_id: str, checkpoint_id: str) -> str:
        self._drop_forsaken()
        keeping = ExitStack()
        keeping.enter_context(self._vault.hold(job_id, checkpoint_id))
        name = secrets.token_hex(16)
        with self._lock:
            self._holds[name] = _Hold(keeping, time.monotonic() + HOLD_S)
        return name

    def renew(self, hold: str) -> None:
        with self._lock:
            held = self._holds.get(hold)
            if held is None:
                raise UnknownCheckpoint("that hold has ended; the checkpoint may have been forgotten")
            held.until_s = time.monotonic() + HOLD_S

    def release(self, hold: str) -> None:
        with self._lock:
            held = self._holds.pop(hold, None)
        if held is not None:
            held.keeping.close()

    def forget(self, job_id: str, keep: int) -> tuple[str, ...]:
        self._drop_forsaken()
        forgotten = self._vault.forget(job_id, keep)
        if self._routine.is_due():
            self._vault.collect_garbage()
        return forgotten

    def collect_garbage(self) -> Garbage:
        return self._vault.collect_garbage(in_need=True)

    def _check_room(self) -> None:
        self._vault.check_room()
        with translated("looking for room"):
            self._may_begin()

    def _blocks(self, job_id: str | None) -> Blocks:
        return self._vault.blocks if job_id is None else self._vault.foreign_blocks(job_id)

    def _drop_forsaken(self) -> None:
        with self._lock:
            over = [name for name, held in self._holds.items() if held.until_s < time.monotonic()]
        for name in over:
            self.release(name)


def named_after_its_run(manifest: Manifest) -> None:
    """Else it could take a name that another run is going to need."""
    if not is_of_run(manifest.checkpoint_id, manifest.job_id, manifest.epoch):
        raise BadManifest(f"{manifest.checkpoint_id} is not named after run {manifest.epoch} of its job")


def _of_job(job_id: str, manifest: bytes | BinaryIO, judge: Callable[[Manifest], None]) -> Manifest:
    decoded = manifest_format.decode(manifest)
    if decoded.job_id != job_id:
        raise BadManifest(f"a manifest of {decoded.job_id}, handed over as one of {job_id}")
    judge(decoded)
    return decoded
