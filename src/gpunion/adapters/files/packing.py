"""How blocks and manifests look in a vault: readable, or sealed with a job's key, or sealed by somebody else.

A sealed block is a packed one (`coding`), encrypted, with a head of its own in the clear: how long it is,
which block it is a difference from, and a checksum of all of it as it is stored. So whoever has no key can
keep it, count on its base, and tell damage; and can read nothing.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from blake3 import blake3

from gpunion.adapters.files import coding
from gpunion.adapters.files import manifests as manifest_format
from gpunion.adapters.files.coding import BaseOf
from gpunion.adapters.files.damage import in_words
from gpunion.adapters.files.forms import Base
from gpunion.adapters.files.pieces import Buffer
from gpunion.adapters.files.sealing import NONCE_BYTES, TAG_BYTES, DoesNotOpen, JobCipher
from gpunion.ports.vault import (
    BadManifest,
    CorruptBlock,
    JobKey,
    Manifest,
    SealedFiles,
    WrongKey,
)

MAGIC = b"GPVE"
# Magic, distance, length of what follows, base; then a check of those, and a checksum of everything.
_FIXED = struct.Struct("<4sB3xI32s")
_CHECK = struct.Struct("<I")
_SUM_BYTES = 32
_SUM_AT = _FIXED.size + _CHECK.size
SEALED_HEAD_BYTES = _SUM_AT + _SUM_BYTES
# A block that cannot be packed is stored as it is, behind both heads.
STORED_BYTES_MAX = coding.STORED_BYTES_MAX + SEALED_HEAD_BYTES + NONCE_BYTES + TAG_BYTES


class StoredHead(Protocol):
    @property
    def base(self) -> str | None: ...

    @property
    def distance(self) -> int: ...

    @property
    def stored_bytes(self) -> int: ...


class Packing(Protocol):
    @property
    def head_bytes_max(self) -> int: ...

    def name(self, plain_name: str) -> str:
        """What the block with this hash is stored as."""
        ...

    def read_head(self, start: Buffer) -> StoredHead:
        """From the beginning of a stored block. CorruptBlock for anything else."""
        ...

    def encode(self, name: str, data: Buffer, base: Base | None) -> bytes: ...

    def decode(self, name: str, stored: Buffer, base_of: BaseOf) -> bytes:
        """Not yet compared with the name. `base_of` gives a base by what it is stored as."""
        ...

    def pack(self, name: str, data: Buffer, base: Base | None) -> Buffer:
        """As `encode`; it may lie in this thread's room until the next call."""
        ...

    def unpack(self, name: str, stored: Buffer, base_of: BaseOf) -> Buffer:
        """As `decode`; it may lie in this thread's room until the next call."""
        ...

    def is_promising(self, name: str, data: Buffer, stored: Buffer) -> bool:
        """Whether the block of that name, as it is stored, may be a good base for `data`."""
        ...

    def close(self, manifest: Manifest) -> Manifest:
        """As it is stored; the same one always the same."""
        ...

    def open(self, manifest: Manifest) -> Manifest:
        """WrongKey, BadManifest."""
        ...


class PlainPacking:
    head_bytes_max = coding.HEAD_BYTES_MAX

    def name(self, plain_name: str) -> str:
        return plain_name

    def read_head(self, start: Buffer) -> StoredHead:
        return coding.read_head(start)

    def encode(self, name: str, data: Buffer, base: Base | None) -> bytes:
        return coding.encode(data, base)

    def decode(self, name: str, stored: Buffer, base_of: BaseOf) -> bytes:
        return coding.decode(stored, base_of)

    def pack(self, name: str, data: Buffer, base: Base | None) -> Buffer:
        return coding.pack(data, base)

    def unpack(self, name: str, stored: Buffer, base_of: BaseOf) -> Buffer:
        return coding.unpack(stored, base_of)

    def is_promising(self, name: str, data: Buffer, stored: Buffer) -> bool:
        return coding.is_promising(data, stored)

    def close(self, manifest: Manifest) -> Manifest:
        return manifest

    def open(self, manifest: Manifest) -> Manifest:
        return manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedHead:
    distance: int
    base: str | None
    stored_bytes: int


class ForeignPacking:
    """Of a job whose key is not here: it can be kept and checked, not read."""

    head_bytes_max = SEALED_HEAD_BYTES

    def name(self, plain_name: str) -> str:
        raise _no_key()

    def read_head(self, start: Buffer) -> SealedHead:
        try:
            magic, distance, length, base = _FIXED.unpack_from(start)
            (check,) = _CHECK.unpack_from(start, _FIXED.size)
        except struct.error as error:
            raise CorruptBlock("a sealed block's head is cut short") from error
        if magic != MAGIC or zlib.crc32(start[: _FIXED.size]) != check:
            raise CorruptBlock("a sealed block's head is damaged")
        return SealedHead(
            distance=distance,
            base=None if base == coding.NO_BASE else base.hex(),
            stored_bytes=SEALED_HEAD_BYTES + length,
        )

    def encode(self, name: str, data: Buffer, base: Base | None) -> bytes:
        raise _no_key()

    def decode(self, name: str, stored: Buffer, base_of: BaseOf) -> bytes:
        raise _no_key()

    def pack(self, name: str, data: Buffer, base: Base | None) -> Buffer:
        raise _no_key()

    def unpack(self, name: str, stored: Buffer, base_of: BaseOf) -> Buffer:
        raise _no_key()

    def is_promising(self, name: str, data: Buffer, stored: Buffer) -> bool:
        raise _no_key()

    def close(self, manifest: Manifest) -> Manifest:
        raise _no_key()

    def open(self, manifest: Manifest) -> Manifest:
        raise _no_key()


class SealedPacking(ForeignPacking):
    def __init__(self, key: JobKey) -> None:
        self._cipher = JobCipher(key)

    def name(self, plain_name: str) -> str:
        return self._cipher.name(plain_name)

    def encode(self, name: str, data: Buffer, base: Base | None) -> bytes:
        """Packed first: what is encrypted cannot be packed any more."""
        packed = coding.encode(data, base)
        head = coding.read_head(packed)
        base_name = coding.NO_BASE if head.base is None else bytes.fromhex(head.base)
        length = NONCE_BYTES + len(packed) + TAG_BYTES
        fixed = _FIXED.pack(MAGIC, head.distance, length, base_name)
        sealed = self._cipher.seal(packed, _about(name, fixed))
        check = _CHECK.pack(zlib.crc32(fixed))
        return b"".join((fixed, check, _checksum(name, fixed, sealed), sealed))

    def decode(self, name: str, stored: Buffer, base_of: BaseOf) -> bytes:
        return bytes(self.unpack(name, stored, base_of))

    def pack(self, name: str, data: Buffer, base: Base | None) -> Buffer:
        return self.encode(name, data, base)

    def unpack(self, name: str, stored: Buffer, base_of: BaseOf) -> Buffer:
        def opened_base(base_name: str) -> Buffer | coding.Packed:
            base = base_of(base_name)
            if isinstance(base, coding.Packed):
                stored = base.read(lambda start: STORED_BYTES_MAX + 1)  # what is sealed opens as a whole
                return coding.Packed.of(self._opened(base_name, stored))
            return base

        return coding.unpack(self._opened(name, stored), opened_base)

    def is_promising(self, name: str, data: Buffer, stored: Buffer) -> bool:
        return coding.is_promising(data, self._opened(name, stored))

    def close(self, manifest: Manifest) -> Manifest:
        """Names of files and which blocks are theirs are as secret as what is in them."""
        names = tuple(sorted(map(self.name, manifest_format.block_names(manifest))))
        clear = SealedFiles(key_id=self._cipher.key_id, blocks=names, body="")
        shell = replace(manifest, files=(), sealed=clear)
        files = json.dumps([asdict(entry) for entry in manifest.files], separators=(",", ":")).encode()
        body = base64.b64encode(self._cipher.seal(files, manifest_format.body_of(shell))).decode()
        return replace(shell, sealed=replace(clear, body=body))

    def open(self, manifest: Manifest) -> Manifest:
        sealed = manifest.sealed
        if sealed is None:
            raise BadManifest(
                f"{manifest.checkpoint_id} is not encrypted, as all of {manifest.job_id} must be"
            )
        if sealed.key_id != self._cipher.key_id:
            raise WrongKey(
                f"{manifest.checkpoint_id} was encrypted with another key than {manifest.job_id} has"
            )
        shell = replace(manifest, sealed=replace(sealed, body=""))
        try:
            body = base64.b64decode(sealed.body, validate=True)
            rows = json.loads(self._cipher.open(body, manifest_format.body_of(shell)))
            files = manifest_format.entries_of(rows)
        except DoesNotOpen as error:
            raise BadManifest(f"{manifest.checkpoint_id} cannot be decrypted: it was changed") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            what = f"the list of files of {manifest.checkpoint_id}"
            raise BadManifest(f"{what} is damaged: {in_words(error)}") from error
        opened = replace(manifest, files=files, sealed=None)
        manifest_format.check(opened)
        return opened

    def _opened(self, name: str, stored: Buffer) -> bytes:
        check_stored(name, stored)
        try:
            return self._cipher.open(stored[SEALED_HEAD_BYTES:], _about(name, stored[: _FIXED.size]))
        except DoesNotOpen as error:
            raise CorruptBlock("it was not sealed with this job's key") from error


def open_all(packing: Packing, manifests: Iterable[Manifest]) -> list[Manifest]:
    """Those that open. WrongKey where there are some and none does: the key is the trouble then."""
    opened: list[Manifest] = []
    trouble: WrongKey | None = None
    for manifest in manifests:
        try:
            opened.append(packing.open(manifest))
        except BadManifest:
            continue
        except WrongKey as fault:
            trouble = fault
    if trouble is not None and not opened:
        raise trouble
    return opened


def check_stored(name: str, stored: Buffer) -> SealedHead:
    """All that can be told without the key: whether it is what somebody once stored under this name."""
    head = ForeignPacking().read_head(stored)
    body = stored[SEALED_HEAD_BYTES:]
    if head.stored_bytes != len(stored) or len(stored) > STORED_BYTES_MAX:
        raise CorruptBlock("a sealed block has another size than its head says")
    if _checksum(name, stored[: _FIXED.size], body) != stored[_SUM_AT:SEALED_HEAD_BYTES]:
        raise CorruptBlock("a sealed block's checksum does not match")
    return head


def _checksum(name: str, fixed: Buffer, body: Buffer) -> bytes:
    found = blake3(_about(name, fixed))
    found.update(body)
    return found.digest()


def _about(name: str, fixed: Buffer) -> bytes:
    return bytes.fromhex(name) + fixed


def _no_key() -> WrongKey:
    return WrongKey("this checkpoint is encrypted, and the job's key is not here")
