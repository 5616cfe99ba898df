"""How blocks and manifests look in a vault: readable, or sealed with a job's key, or sealed by somebody else.

A sealed block is a packed one (`codec`), encrypted, with a head of its own in the clear: how long it is,
and a checksum of all of it as it is stored. So whoever has no key can keep it and tell damage; and can read
nothing.
"""

from __future__ import annotations

import base64
import io
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from blake3 import blake3

from gpunion.vault import codec
from gpunion.vault import manifests as manifest_format
from gpunion.vault.compression import Buffer
from gpunion.vault.damage import in_words
from gpunion.vault.encryption import NONCE_BYTES, TAG_BYTES, DoesNotOpen, JobCipher
from gpunion.vault.manifest import (
    BadManifest,
    CorruptBlock,
    FileEntry,
    JobKey,
    Manifest,
    SealedFiles,
    WrongKey,
)
from gpunion.vault.rows import FileRows, encode_files, rows

MAGIC = b"GPVE"
# Magic, length of what follows; then a check of those, and a checksum of everything.
_FIXED = struct.Struct("<4sI")
_CHECK = struct.Struct("<I")
_SUM_BYTES = 32
_SUM_AT = _FIXED.size + _CHECK.size
SEALED_HEAD_BYTES = _SUM_AT + _SUM_BYTES
# A block that cannot be packed is stored as it is, behind both heads.
STORED_BYTES_MAX = codec.STORED_BYTES_MAX + SEALED_HEAD_BYTES + NONCE_BYTES + TAG_BYTES


class StoredHead(Protocol):
    @property
    def stored_bytes(self) -> int: ...


class Packing(Protocol):
    @property
    def head_bytes(self) -> int: ...

    def name(self, plain_name: str) -> str:
        """What the block with this hash is stored as."""
        ...

    def read_head(self, start: Buffer) -> StoredHead:
        """From the beginning of a stored block. CorruptBlock for anything else."""
        ...

    def pack(self, name: str, data: Buffer) -> Buffer:
        """It may lie in this thread's room until the next call."""
        ...

    def unpack(self, name: str, stored: Buffer) -> Buffer:
        """Not yet compared with the name; it may lie in this thread's room until the next call."""
        ...

    def close(self, manifest: Manifest) -> Manifest:
        """As it is stored; the same one always the same."""
        ...

    def open(self, manifest: Manifest) -> Manifest:
        """WrongKey, BadManifest."""
        ...


class PlainPacking:
    head_bytes = codec.HEAD_BYTES

    def name(self, plain_name: str) -> str:
        return plain_name

    def read_head(self, start: Buffer) -> StoredHead:
        return codec.read_head(start)

    def pack(self, name: str, data: Buffer) -> Buffer:
        return codec.pack(data)

    def unpack(self, name: str, stored: Buffer) -> Buffer:
        return codec.unpack(stored)

    def close(self, manifest: Manifest) -> Manifest:
        return manifest

    def open(self, manifest: Manifest) -> Manifest:
        return manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedHead:
    stored_bytes: int


class ForeignPacking:
    """Of a job whose key is not here: it can be kept and checked, not read."""

    head_bytes = SEALED_HEAD_BYTES

    def name(self, plain_name: str) -> str:
        raise _no_key()

    def read_head(self, start: Buffer) -> SealedHead:
        try:
            magic, length = _FIXED.unpack_from(start)
            (check,) = _CHECK.unpack_from(start, _FIXED.size)
        except struct.error as error:
            raise CorruptBlock("a sealed block's head is cut short") from error
        if magic != MAGIC or zlib.crc32(start[: _FIXED.size]) != check:
            raise CorruptBlock("a sealed block's head is damaged")
        return SealedHead(stored_bytes=SEALED_HEAD_BYTES + length)

    def pack(self, name: str, data: Buffer) -> Buffer:
        raise _no_key()

    def unpack(self, name: str, stored: Buffer) -> Buffer:
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

    def pack(self, name: str, data: Buffer) -> Buffer:
        """Packed first: what is encrypted cannot be packed any more."""
        packed = codec.encode(data)
        fixed = _FIXED.pack(MAGIC, NONCE_BYTES + len(packed) + TAG_BYTES)
        sealed = self._cipher.seal(packed, _about(name, fixed))
        check = _CHECK.pack(zlib.crc32(fixed))
        return b"".join((fixed, check, _checksum(name, fixed, sealed), sealed))

    def unpack(self, name: str, stored: Buffer) -> Buffer:
        return codec.unpack(self._opened(name, stored))

    def close(self, manifest: Manifest) -> Manifest:
        """Names of files and which blocks are theirs are as secret as what is in them."""
        names = tuple(sorted(map(self.name, manifest_format.block_names(manifest))))
        clear = SealedFiles(key_id=self._cipher.key_id, blocks=names, body="")
        shell = replace(manifest, files=(), sealed=clear)
        files = b"".join(encode_files(manifest.files))
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
            files = _files_of(self._cipher.open(body, manifest_format.body_of(shell)))
        except DoesNotOpen as error:
            raise BadManifest(f"{manifest.checkpoint_id} cannot be decrypted: it was changed") from error
        except ValueError as error:
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


def _files_of(listing: bytes) -> tuple[FileEntry, ...]:
    found = FileRows()
    for number, _, row in rows(io.BytesIO(listing).readline):
        found.take(number, row)
    return found.files()


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
