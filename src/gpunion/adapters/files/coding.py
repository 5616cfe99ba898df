"""A block as it is stored: a head that says how, then the pieces.

Three ways, whichever is smallest by a quick look at a sample: as it is (compressed where that helps), as
planes of numbers, or as planes of the difference from another block, its base, which the head names. The head
guards itself; the content is guarded by the block's name, which is the hash of the plain bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import zstandard

from gpunion.adapters.files import planes
from gpunion.ports.vault import BLOCK_SIZE_BYTES, CorruptBlock

MAGIC = b"GPV2"
# Magic, width, distance, number of pieces, plain size, base; then each piece's length, and if it is packed.
_FIXED = struct.Struct("<4sBBBxI32s")
_PIECE = struct.Struct("<I?")
_CHECK = struct.Struct("<I")
PIECES_MAX = max(planes.WIDTHS) + 1
HEAD_BYTES_MAX = _FIXED.size + PIECES_MAX * _PIECE.size + _CHECK.size
NO_BASE = bytes(32)
PLAIN_WIDTH = 1

# So many differences from one base before a new one is stored whole. Fewer store more whole blocks, more
# drift further from the base (bench/checkpoint --series full).
DISTANCE_MAX = 8
SAMPLE_BYTES = 16 * 1024
SAMPLES = 3
# A form has to save this much of the next simpler one; each costs time in every restore.
WORTH = 0.97


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    width: int
    distance: int  # 0: whole; else how many checkpoints the base is behind
    plain_bytes: int
    base: str | None
    pieces: tuple[tuple[int, bool], ...]

    @property
    def head_bytes(self) -> int:
        return _FIXED.size + len(self.pieces) * _PIECE.size + _CHECK.size

    @property
    def stored_bytes(self) -> int:
        return self.head_bytes + sum(length for length, _ in self.pieces)


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A block to take the difference from, and how far behind that base would be."""

    name: str
    data: bytes
    distance: int


@dataclass(frozen=True, slots=True)
class _Form:
    width: int
    base: Base | None = None


def encode(data: bytes, base: Base | None = None) -> bytes:
    form = _choose(data, base if base is not None and len(base.data) == len(data) else None)
    pieces = _packed(_pieces(data, form), form.width)
    fixed = _FIXED.pack(
        MAGIC,
        form.width,
        form.base.distance if form.base else 0,
        len(pieces),
        len(data),
        bytes.fromhex(form.base.name) if form.base else NO_BASE,
    )
    head = fixed + b"".join(_PIECE.pack(len(piece), packed) for piece, packed in pieces)
    return b"".join((head, _CHECK.pack(zlib.crc32(head)), *(piece for piece, _ in pieces)))


def read_head(stored: bytes) -> Head:
    """From the beginning of a stored block. CorruptBlock for anything but what `encode` made."""
    try:
        magic, width, distance, count, plain_bytes, base = _FIXED.unpack_from(stored)
        end = _FIXED.size + count * _PIECE.size
        (check,) = _CHECK.unpack_from(stored, end)
        pieces = tuple(_PIECE.iter_unpack(stored[_FIXED.size : end]))
    except struct.error as error:
        raise CorruptBlock(f"a stored block's head is cut short: {error}") from error
    if magic != MAGIC or zlib.crc32(stored[:end]) != check:
        raise CorruptBlock("a stored block's head is damaged")
    return Head(
        width=width,
        distance=distance,
        plain_bytes=plain_bytes,
        base=None if base == NO_BASE else base.hex(),
        pieces=pieces,
    )


def decode(stored: bytes, plain_of: Callable[[str], bytes]) -> bytes:
    """The plain bytes, not yet verified; `plain_of` gives those of a base."""
    head = read_head(stored)
    if len(stored) != head.stored_bytes or head.plain_bytes > BLOCK_SIZE_BYTES:
        raise CorruptBlock("a stored block has another size than its head says")
    pieces = _unpacked(stored, head)
    if head.width == PLAIN_WIDTH:
        return bytes(pieces[0])
    values = planes.join(pieces[: head.width])
    if head.base is None:
        planes.unrotate(values)
    else:
        old = plain_of(head.base)
        if len(old) != head.plain_bytes:
            raise CorruptBlock("a base has another size than the block that needs it")
        planes.advance(values, planes.numbers(old, head.width))
    return b"".join((values.data, *pieces[head.width :]))


def _choose(data: bytes, base: Base | None) -> _Form:
    """By what a few samples come to. Simpler forms win ties."""
    best, best_bytes = _Form(PLAIN_WIDTH), _cost(data, _Form(PLAIN_WIDTH))
    for candidate_base in (None, base) if base else (None,):
        for width in planes.WIDTHS:
            form = _Form(width, candidate_base)
            form_bytes = _cost(data, form)
            if form_bytes < WORTH * best_bytes:
                best, best_bytes = form, form_bytes
    return best


def _cost(data: bytes, form: _Form) -> int:
    total = 0
    for start in _sample_starts(len(data)):
        part = slice(start, start + SAMPLE_BYTES)
        base = form.base
        if base is not None:
            base = Base(name=base.name, data=base.data[part], distance=base.distance)
        pieces = _packed(_pieces(data[part], _Form(form.width, base)), form.width)
        total += sum(len(piece) for piece, _ in pieces)
    return total


def _sample_starts(size_bytes: int) -> Sequence[int]:
    """The first, one in the middle and the last; at places where a number of any width begins."""
    if size_bytes <= SAMPLES * SAMPLE_BYTES:
        return range(0, max(1, size_bytes), SAMPLE_BYTES)
    gap = (size_bytes - SAMPLE_BYTES) // (SAMPLES - 1) // 8 * 8
    return range(0, gap * SAMPLES, gap)


def _pieces(data: bytes, form: _Form) -> list[bytes]:
    if form.width == PLAIN_WIDTH:
        return [data]
    values = planes.numbers(data, form.width)
    if form.base is None:
        values = planes.rotated(values)
    else:
        values = planes.difference(values, planes.numbers(form.base.data, form.width))
    rest = data[len(data) // form.width * form.width :]
    return [plane.tobytes() for plane in planes.split(values)] + ([rest] if rest else [])


def _packed(pieces: list[bytes], width: int) -> list[tuple[bytes, bool]]:
    """What does not get smaller stays as it is: reading it back is then free."""
    packer = zstandard.ZstdCompressor(compression_params=_parameters(width))
    found = []
    for piece in pieces:
        packed = packer.compress(piece) if piece else piece
        found.append((packed, True) if len(packed) < WORTH * len(piece) else (piece, False))
    return found


def _unpacked(stored: bytes, head: Head) -> list[bytes | memoryview]:
    unpacker = zstandard.ZstdDecompressor()
    start, whole = head.head_bytes, memoryview(stored)
    pieces: list[bytes | memoryview] = []
    for length, packed in head.pieces:
        piece = whole[start : start + length]
        start += length
        try:
            pieces.append(unpacker.decompress(piece, max_output_size=BLOCK_SIZE_BYTES) if packed else piece)
        except zstandard.ZstdError as error:
            raise CorruptBlock(f"a stored block cannot be unpacked: {error}") from error
    rest_bytes = head.plain_bytes % head.width
    expected = [head.plain_bytes // head.width] * head.width + ([rest_bytes] if rest_bytes else [])
    if [len(piece) for piece in pieces] != expected:
        raise CorruptBlock("a stored block's pieces have other sizes than its head says")
    return pieces


@cache
def _parameters(width: int) -> zstandard.ZstdCompressionParameters:
    """Planes have skewed bytes and no repetitions: a tiny table leaves it to the entropy coder, instead of
    spending bytes and time on short matches that are there by chance."""
    if width == PLAIN_WIDTH:
        return zstandard.ZstdCompressionParameters.from_level(3)
    return zstandard.ZstdCompressionParameters.from_level(1, min_match=7, hash_log=6)
