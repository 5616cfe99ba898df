"""Sealed checkpoints from one vault to another, and single blocks: packed as they lie, no key needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from blake3 import blake3

from gpunion.vault import codec
from gpunion.vault import manifests as manifest_format
from gpunion.vault.interfaces import HOLD_S, VaultDesk
from gpunion.vault.manifest import (
    BadManifest,
    CorruptBlock,
    MissingBlock,
    ShipCancelled,
    UnknownCheckpoint,
    VaultFault,
)
from gpunion.vault.packing import check_stored

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

    Faults are those of `vault.manifest`."""
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


def plain_from(desk: VaultDesk, name: str) -> bytes:
    """A block's plain bytes out of any vault, verified. Not of a job with a key."""
    data = codec.decode(desk.fetch(name))
    if blake3(data).hexdigest() != name:
        raise CorruptBlock(f"{name} has other bytes than its name says")
    return data


def sound_from(desk: VaultDesk, name: str, owner: str | None) -> bytes:
    """As it is stored there, and can be stored anywhere: verified, or of a job with a key its checksum
    compared."""
    stored = desk.fetch(name, owner)
    if owner is not None:
        check_stored(name, stored)
    elif blake3(codec.unpack(stored)).hexdigest() != name:
        raise CorruptBlock(f"{name} has other bytes than its name says")
    return stored


class _Bringing:
    def __init__(self, source: VaultDesk, target: VaultDesk, owner: str | None) -> None:
        self._source, self._target, self._owner = source, target, owner

    def block(self, name: str) -> int:
        """Bytes sent. Verified here: a bucket takes our word for it."""
        try:
            stored = sound_from(self._source, name, self._owner)
            self._target.put(name, stored, self._owner)
        except CorruptBlock:
            self._source.doubt(name, self._owner)
            raise
        return len(stored)


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
