"""Sealed checkpoints from one vault to another, and single blocks: packed as they lie, no key needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from blake3 import blake3

from gpunion.adapters.files import coding
from gpunion.adapters.files import manifests as manifest_format
from gpunion.adapters.files.coding import CHAIN_MAX
from gpunion.adapters.files.packing import ForeignPacking, PlainPacking, check_stored
from gpunion.ports.vault import (
    BadManifest,
    CorruptBlock,
    MissingBlock,
    ShipCancelled,
    UnknownCheckpoint,
    VaultFault,
)
from gpunion.ports.vault_desk import HOLD_S, VaultDesk

# Copying is nobody's hurry: a few at a time, beside what guests send.
COPIERS = 2
# What a vault that answers says of content it does not have whole. Any other fault tells nothing of content.
LOST = (CorruptBlock, MissingBlock, UnknownCheckpoint, BadManifest)


def copy_checkpoint(
    source: VaultDesk,
    target: VaultDesk,
    job_id: str,
    manifest: bytes,
    *,
    pace: Callable[[int], None] = lambda stored_bytes: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> int:
    """Returns the bytes that were sent; 0 where it was there. Cut short anywhere it can be repeated.

    Faults are those of `ports.vault`."""
    decoded = manifest_format.decode(manifest)
    owner = None if decoded.sealed is None else job_id
    target.begin_copy(job_id, decoded.epoch)
    names = manifest_format.block_names(decoded)
    with _held(source, job_id, decoded.checkpoint_id) as renew, ThreadPoolExecutor(COPIERS) as pool:
        sent_bytes = 0
        bring = _Bringing(source, target, owner)
        for block_bytes in pool.map(bring.block, sorted(names - target.has(names, owner))):
            sent_bytes += block_bytes
            pace(block_bytes)
            renew()
            if cancelled():
                pool.shutdown(cancel_futures=True)
                raise ShipCancelled(f"{decoded.checkpoint_id} is no longer copied")
        target.adopt(job_id, manifest)
    return sent_bytes


def plain_from(desk: VaultDesk, name: str, chain_left: int = CHAIN_MAX) -> bytes:
    """A block's plain bytes out of any vault, verified. Not of a job with a key."""
    if not chain_left:
        raise CorruptBlock(f"a chain of differences is longer than {CHAIN_MAX}")
    stored = desk.fetch(name)
    data = PlainPacking().decode(name, stored, lambda base: plain_from(desk, base, chain_left - 1))
    if blake3(data).hexdigest() != name:
        raise CorruptBlock(f"{name} has other bytes than its name says")
    return data


def sound_from(desk: VaultDesk, name: str, owner: str | None) -> bytes:
    """As it can be stored anywhere: whole, or of a job with a key as it lies there, its checksum compared."""
    if owner is None:
        return coding.encode(plain_from(desk, name), None)
    stored = desk.fetch(name, owner)
    check_stored(name, stored)
    return stored


class _Bringing:
    def __init__(self, source: VaultDesk, target: VaultDesk, owner: str | None) -> None:
        self._source, self._target, self._owner = source, target, owner
        self._packing = PlainPacking() if owner is None else ForeignPacking()

    def block(self, name: str, chain_left: int = CHAIN_MAX) -> int:
        """What it is a difference from comes first. Bytes sent."""
        if not chain_left:
            raise CorruptBlock(f"a chain of differences is longer than {CHAIN_MAX}")
        stored = self._source.fetch(name, self._owner)
        try:
            base = self._packing.read_head(stored).base
            sent_bytes = 0
            if base is not None and not self._target.has([base], self._owner):
                sent_bytes = self.block(base, chain_left - 1)
            self._put(name, stored)
        except CorruptBlock:
            self._source.doubt(name, self._owner)
            raise
        return sent_bytes + len(stored)

    def _put(self, name: str, stored: bytes) -> None:
        if self._owner is None:  # a bucket takes our word for it
            _check(name, stored)
        try:
            self._target.put(name, stored, self._owner)
        except MissingBlock:  # there its base is itself a difference
            self._target.put(name, sound_from(self._source, name, self._owner), self._owner)


def _check(name: str, stored: bytes) -> None:
    """Of a whole block; a difference is checked with its base by whoever reads it."""
    if coding.read_head(stored).base is not None:
        return
    if blake3(PlainPacking().decode(name, stored, lambda base: b"")).hexdigest() != name:
        raise CorruptBlock(f"{name} has other bytes than its name says")


@contextmanager
def _held(desk: VaultDesk, job_id: str, checkpoint_id: str) -> Iterator[Callable[[], None]]:
    hold = desk.hold(job_id, checkpoint_id)
    renewed_s = time.monotonic()

    def renew() -> None:
        nonlocal renewed_s
        if time.monotonic() - renewed_s > HOLD_S / 4:
            desk.renew(hold)
            renewed_s = time.monotonic()

    try:
        yield renew
    finally:
        with suppress(VaultFault):  # it ends by itself
            desk.release(hold)
