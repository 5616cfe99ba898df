"""One piece of a block made smaller, in the way that a sample says is smallest, and back.

zstd does it in both ways but one: where most bytes of a plane are the same (the upper bytes of token ids, or
zeros), a bit for each byte says whether it is another, and the others follow. That is smaller than what zstd
makes of the plane, and takes a third of the time.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING

import zstandard

from gpunion.vault.manifest import CorruptBlock
from gpunion.vault.room import room

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Bytes = NDArray[numpy.uint8]
    Counts = NDArray[numpy.intp]

Buffer = bytes | memoryview

# Packing has to save this much; unpacking costs time in every restore.
WORTH = 0.97
SAMPLES, SAMPLE_BYTES = 3, 4 * 1024
# The least share of the most common byte at which the others are worth being told apart.
COMMON_SHARE = 0.5
# The common byte, how many others there are, and how long the bits are as they are stored.
_EXCEPTIONS = struct.Struct("<BxxxII")

_local = threading.local()


class Kind(IntEnum):
    """How a piece is stored."""

    AS_IT_IS = 0
    COMPRESSED = 1
    EXCEPTIONS = 2


class Way(IntEnum):
    """How to store one: the numbers are zstd's levels, but for our own."""

    AS_IT_IS = -2
    EXCEPTIONS = -1
    # Most planes have skewed bytes and no repetitions: a tiny table leaves it to the entropy coder, instead
    # of spending bytes and time on short matches that are there by chance.
    ENTROPY_ONLY = 0
    FAST = 1
    USUAL = 3


def way_of(plane: Bytes) -> Way:
    """By a sample of its beginning, its middle and its end."""
    import numpy

    if plane.size > SAMPLES * SAMPLE_BYTES:
        gap = (plane.size - SAMPLE_BYTES) // (SAMPLES - 1)
        sample = numpy.concatenate([plane[at : at + SAMPLE_BYTES] for at in range(0, SAMPLES * gap, gap)])
    else:
        sample = numpy.ascontiguousarray(plane)
    counts = numpy.bincount(sample, minlength=256)
    common = int(counts.argmax())
    if counts[common] >= COMMON_SHARE * sample.size:
        others = counts.copy()
        others[common] = 0
        told_apart = numpy.array([counts[common], others.sum()])
        way, size = Way.EXCEPTIONS, float(by_entropy(told_apart) + by_entropy(others))
    else:
        way, size = Way.ENTROPY_ONLY, float(by_entropy(counts))
    # A longer pattern that is repeated shows in a sample, and not in the counts.
    repeated = len(compressed(sample.data, Way.FAST))
    if repeated < WORTH * size:
        way, size = Way.FAST, repeated
    return way if size < WORTH * sample.size else Way.AS_IT_IS


def by_entropy(counts: Counts) -> NDArray[numpy.float64]:
    """What bytes that occur so often come to, along the last axis: their entropy, and a table of them. As
    long as they are where that is no gain."""
    import numpy

    total = counts.sum(axis=-1)
    each = counts * numpy.log2(numpy.maximum(counts, 1))
    bits = total * numpy.log2(numpy.maximum(total, 1)) - each.sum(axis=-1)
    packed = bits / 8 + (counts > 0).sum(axis=-1) / 2
    found: NDArray[numpy.float64] = numpy.where(packed < WORTH * total, packed, total)
    return found


def smaller(data: Buffer, way: Way) -> tuple[Kind, Sequence[Buffer]]:
    """In so many parts. What does not get smaller stays as it is: reading it back is then free."""
    kind, parts = Kind.COMPRESSED, list[Buffer]()
    if way is Way.EXCEPTIONS:
        kind, parts = Kind.EXCEPTIONS, _with_exceptions(_bytes(data))
    elif way is not Way.AS_IT_IS:
        parts = [compressed(data, way)]
    is_smaller = way is not Way.AS_IT_IS and sum(map(len, parts)) < WORTH * len(data)
    return (kind, parts) if is_smaller else (Kind.AS_IT_IS, [data])


def opened(piece: memoryview, kind: int, use: str, size_bytes: int) -> memoryview:
    """`size_bytes`, in this thread's room for `use` unless they lie open in `piece`. CorruptBlock."""
    if kind == Kind.AS_IT_IS:
        if len(piece) != size_bytes:
            raise CorruptBlock("a stored block's pieces have other sizes than its head says")
        return piece
    out = room(use, size_bytes)
    if kind == Kind.COMPRESSED:
        _decompress(piece, out)
    elif kind == Kind.EXCEPTIONS:
        _put_exceptions(piece, _bytes(out), use)
    else:
        raise CorruptBlock("a stored block's head says what cannot be")
    return out


def compressed(data: Buffer, way: Way) -> bytes:
    found: dict[Way, zstandard.ZstdCompressor] | None = getattr(_local, "compressors", None)
    if found is None:
        found = _local.compressors = {}
    if way not in found:
        found[way] = zstandard.ZstdCompressor(compression_params=_parameters(way))
    return found[way].compress(data)


def _with_exceptions(plane: Bytes) -> list[Buffer]:
    import numpy

    common = int(numpy.bincount(plane[: 16 * SAMPLE_BYTES], minlength=256).argmax())
    is_other = plane != common
    others = numpy.take(plane, numpy.flatnonzero(is_other))
    bits = compressed(numpy.packbits(is_other).data, Way.ENTROPY_ONLY)
    head = _EXCEPTIONS.pack(common, others.size, len(bits))
    return [head, bits, compressed(others.data, Way.ENTROPY_ONLY)]


def _put_exceptions(piece: memoryview, plane: Bytes, use: str) -> None:
    import numpy

    if len(piece) < _EXCEPTIONS.size:
        raise CorruptBlock("a stored block's exceptions are cut short")
    common, count, bits_bytes = _EXCEPTIONS.unpack_from(piece)
    bits = room(f"{use}-bits", -(-plane.size // 8))
    _decompress(piece[_EXCEPTIONS.size :][:bits_bytes], bits)
    at = numpy.flatnonzero(numpy.unpackbits(_bytes(bits), count=plane.size).view("?"))
    if at.size != count:
        raise CorruptBlock("a stored block's exceptions are damaged")
    others = room(f"{use}-others", count)
    _decompress(piece[_EXCEPTIONS.size :][bits_bytes:], others)
    plane.fill(common)
    plane[at] = _bytes(others)


def _decompress(piece: memoryview, out: memoryview) -> None:
    """Into memory that is there. Given all of it at once, the decompressor goes without memory of its own."""
    decompressor: zstandard.ZstdDecompressor | None = getattr(_local, "decompressor", None)
    if decompressor is None:
        decompressor = _local.decompressor = zstandard.ZstdDecompressor()
    done = 0
    try:
        with decompressor.stream_reader(piece) as reader:
            while done < len(out) and (more := reader.readinto(out[done:])):
                done += more
    except zstandard.ZstdError as error:
        raise CorruptBlock("a stored block cannot be unpacked") from error
    if done != len(out):
        raise CorruptBlock("a stored block's pieces have other sizes than its head says")


def _bytes(data: Buffer) -> Bytes:
    import numpy

    return numpy.frombuffer(data, "u1")


@cache
def _parameters(way: Way) -> zstandard.ZstdCompressionParameters:
    if way is Way.ENTROPY_ONLY:
        return zstandard.ZstdCompressionParameters.from_level(1, min_match=7, hash_log=6)
    return zstandard.ZstdCompressionParameters.from_level(int(way))
