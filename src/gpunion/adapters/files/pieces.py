"""A plane, or any bytes, packed: as they are, compressed, as the exceptions from one common byte, as codes
(`codes`), or as narrow numbers (`narrow`).

Compressing costs much more time than reading and writing, in both directions. Where most bytes of a plane are
the same (the upper bytes of token ids, or of small differences) the exceptions alone, each with its distance
from the one before, take less room than what the compressor makes of them, and a third of the time. Where a
few are common, codes take little more room, and a quarter of the time where there is native code.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import zstandard

from gpunion.adapters.files import codes, narrow
from gpunion.adapters.files.kinds import AS_IT_IS, CODES, COMPRESSED, EXCEPTIONS, NARROW
from gpunion.adapters.files.native import Plane as NativePlane
from gpunion.adapters.files.native import packs
from gpunion.adapters.files.native import plane as native_plane
from gpunion.adapters.files.room import room
from gpunion.ports.vault import CorruptBlock, NewerFormat

if TYPE_CHECKING:
    from numpy import intp
    from numpy.typing import NDArray

    from gpunion.adapters.files.planes import Plane

    Positions = NDArray[intp]

Buffer = bytes | memoryview
# Packing has to save this much; unpacking costs time in every restore.
WORTH = 0.97
# The common byte, how the distances and the values are packed, how many there are, bytes of the distances.
_EXCEPTIONS = struct.Struct("<BBBxII")
# So many bytes, or exceptions, at a time: the positions take eight times that.
STRIP = 512 * 1024
# Distances that are summed up at once. numpy lets other threads work where there are more than 500 rows.
ROW = 256
GAP_MAX = 255
# The least share of the common byte at which exceptions are worth a try.
COMMON_SHARE = 0.5
# How many bits more codes may take for a byte than its entropy: they come back in a quarter of the time.
CODES_MORE_BITS = 0.9

_local = threading.local()


def packed(data: Buffer, *, plane: bool) -> tuple[int, list[Buffer]]:
    """How, and the bytes in so many parts. They may lie in this thread's room until the next call."""
    if plane and data:
        found = _by_count(data)
        if found is not None:
            return found
    return _compressed(data, plane=plane)


def unpacked(
    piece: memoryview, kind: int, size_bytes: int, use: str, *, beginning: bool = False
) -> memoryview:
    """`size_bytes`, in this thread's room for `use` unless they lie open in `piece` already. That is all of
    it, or its `beginning`, for which little more is unpacked than that."""
    if kind == AS_IT_IS:
        if len(piece) != size_bytes and not (beginning and len(piece) > size_bytes):
            raise CorruptBlock("a stored block's pieces have other sizes than its head says")
        return piece[:size_bytes]
    out = room(use, size_bytes)
    if kind == COMPRESSED:
        _decompress(piece, out)
    elif kind == EXCEPTIONS:
        scatter(piece, _plane(out), beginning=beginning)
    elif kind == CODES:
        codes.unpack(codes.read(piece, size_bytes, use), _plane(out))
    elif kind == NARROW:
        narrow.unpack(piece, out, whole=not beginning)
    else:
        raise NewerFormat  # the block's head has guarded it, so somebody meant it
    return out


def comes_back(piece: memoryview, kind: int, content: Buffer) -> bool:
    """Whether it is that again. Looked at where our own code has packed it: what is acknowledged has to be
    there, and a save waits for its disk in any case."""
    import numpy

    try:
        return numpy.array_equal(_plane(unpacked(piece, kind, len(content), "check")), _plane(content))
    except CorruptBlock:
        return False


def size_of(parts: Sequence[Buffer]) -> int:
    return sum(map(len, parts))


def _compressed(data: Buffer, *, plane: bool) -> tuple[int, list[Buffer]]:
    """What does not get smaller stays as it is: reading it back is then free."""
    if not data:
        return AS_IT_IS, [data]
    smaller = _compressor(plane=plane).compress(data)
    return (COMPRESSED, [smaller]) if len(smaller) < WORTH * len(data) else (AS_IT_IS, [data])


def _by_count(data: Buffer) -> tuple[int, list[Buffer]] | None:
    """None where compressing is better, by a look at the beginning, the middle and the end: where no few
    bytes are common, or where they repeat in longer patterns, so that less is left than their entropy."""
    import numpy

    plane = _plane(data)
    sample = _sample(plane)
    counts = numpy.bincount(sample, minlength=256)
    common = int(counts.argmax())
    mostly_one = counts[common] >= COMMON_SHARE * sample.size
    if not mostly_one and not packs():
        return None
    entropy_bits = -(counts * numpy.log2(numpy.maximum(counts, 1) / sample.size)).sum() / sample.size
    code = None if mostly_one else codes.code_for(counts)
    if not mostly_one and (code is None or code.each_bits > entropy_bits + CODES_MORE_BITS):
        return None
    if size_of(_compressed(sample.data, plane=True)[1]) < WORTH * entropy_bits / 8 * sample.size:
        return None
    if code is None:
        return EXCEPTIONS, _with_exceptions(plane, common)
    found = codes.packed(plane, code)
    # The rest may be of another kind than the sample.
    bits_max = min(8 * WORTH, entropy_bits + 1.5 * CODES_MORE_BITS)
    return (CODES, found) if 8 * size_of(found) < bits_max * plane.size else None


def _sample(plane: Plane) -> Plane:
    import numpy

    size = 4 * 1024
    if plane.size <= 4 * size:
        return plane
    middle = plane.size // 2
    return numpy.concatenate((plane[:size], plane[middle : middle + size], plane[-size:]))


def _with_exceptions(plane: Plane, common: int) -> list[Buffer]:
    import numpy

    gaps, values = _plane(room("gaps", plane.size)), _plane(room("exceptions", plane.size))
    count, last = 0, -1
    for start in range(0, plane.size, STRIP):
        part = plane[start : start + STRIP]
        positions = numpy.flatnonzero(part != common)
        if not positions.size:
            continue
        found = part[positions]
        positions += start
        distances = numpy.diff(positions, prepend=last)
        last = int(positions[-1])
        if distances.max() > GAP_MAX:
            distances, found = _bridged(distances, found, common)
        end = count + distances.size
        gaps[count:end], values[count:end] = distances, found
        count = end
    gaps_kind, gaps_parts = _compressed(gaps[:count].data, plane=True)
    values_kind, values_parts = _compressed(values[:count].data, plane=True)
    head = _EXCEPTIONS.pack(common, gaps_kind, values_kind, count, size_of(gaps_parts))
    return [head, *gaps_parts, *values_parts]


def _bridged(distances: Positions, found: Plane, common: int) -> tuple[Positions, Plane]:
    """Distances that no byte can hold are gone in several steps: an exception that is none at each."""
    import numpy

    steps = (distances - 1) // GAP_MAX
    ends = numpy.cumsum(steps + 1) - 1
    more = numpy.full(int(ends[-1]) + 1, GAP_MAX, distances.dtype)
    more[ends] = distances - steps * GAP_MAX
    values = numpy.full(more.size, common, "u1")
    values[ends] = found
    return more, values


def native_reader(piece: memoryview, kind: int, size_bytes: int, use: str) -> NativePlane:
    """The same for native code, which unpacks it where it is needed. What it points to lies in `piece`, or in
    this thread's room for `use`."""
    if kind == CODES:
        return codes.read(piece, size_bytes, use).native()
    if kind == EXCEPTIONS:
        common, gaps, values = _read_exceptions(piece, size_bytes, use, beginning=False)
        return native_plane(EXCEPTIONS, gaps, common=bytes([common]), others=values)
    return native_plane(AS_IT_IS, _plane(unpacked(piece, kind, size_bytes, use)))


def scatter(
    piece: memoryview, plane: Plane, *, beginning: bool = False, filled_with: int | None = None
) -> None:
    """A plane of exceptions, into any array of bytes; which may have a byte everywhere already."""
    import numpy

    common, gaps, values = _read_exceptions(piece, plane.size, "exceptions", beginning=beginning)
    count = gaps.size
    if common != filled_with:
        plane.fill(common)
    last = -1
    for start in range(0, count, STRIP):
        part = slice(start, min(start + STRIP, count))
        positions = _positions(gaps[part], last)
        if beginning:
            positions = positions[: numpy.searchsorted(positions, plane.size)]
            part = slice(start, start + positions.size)
            if not positions.size:
                return
        last = int(positions[-1])
        if not -1 < int(positions[0]) <= last < plane.size:
            raise CorruptBlock("a stored block's exceptions lie outside of it")
        plane[positions] = values[part]


def _read_exceptions(
    piece: memoryview, size_bytes: int, use: str, *, beginning: bool
) -> tuple[int, Plane, Plane]:
    """The common byte, the distances, and the exceptions."""
    if len(piece) < _EXCEPTIONS.size:
        raise CorruptBlock("a stored block's exceptions are cut short")
    common, gaps_kind, values_kind, count, gaps_bytes = _EXCEPTIONS.unpack_from(piece)
    if beginning:
        count = min(count, size_bytes)
    if count > size_bytes or not {gaps_kind, values_kind} <= {AS_IT_IS, COMPRESSED}:
        raise CorruptBlock("a stored block's exceptions are damaged")
    gaps_piece, values_piece = piece[_EXCEPTIONS.size :][:gaps_bytes], piece[_EXCEPTIONS.size + gaps_bytes :]
    gaps = unpacked(gaps_piece, gaps_kind, count, f"{use}-gaps", beginning=beginning)
    values = unpacked(values_piece, values_kind, count, f"{use}-values", beginning=beginning)
    return common, _plane(gaps), _plane(values)


def _positions(gaps: Plane, last: int) -> Positions:
    """Where exceptions are, from each one's distance from the one before. They are summed up in many short
    rows: over one long one, or a few, numpy keeps all other threads waiting."""
    import numpy

    rows = -(-gaps.size // ROW)
    found: Positions = numpy.frombuffer(room("positions", rows * ROW * 8), "i8")
    found[: gaps.size] = gaps
    found[gaps.size :] = 0
    table = found.reshape(rows, ROW)
    numpy.add.accumulate(table, axis=1, out=table)
    before = numpy.cumsum(table[:, -1]) - table[:, -1] + last
    table += before[:, numpy.newaxis]
    return found[: gaps.size]


def _plane(data: Buffer) -> Plane:
    import numpy

    return numpy.frombuffer(data, "u1")


def _decompress(piece: memoryview, out: memoryview) -> None:
    """Into memory that is there. Given all of it at once, the decompressor goes without memory of its own."""
    try:
        with _decompressor().stream_reader(piece) as reader:
            done = 0
            while done < len(out) and (more := reader.readinto(out[done:])):
                done += more
    except zstandard.ZstdError as error:
        raise CorruptBlock("a stored block cannot be unpacked") from error
    if done != len(out):
        raise CorruptBlock("a stored block's pieces have other sizes than its head says")


def _decompressor() -> zstandard.ZstdDecompressor:
    found: zstandard.ZstdDecompressor | None = getattr(_local, "decompressor", None)
    if found is None:
        found = _local.decompressor = zstandard.ZstdDecompressor()
    return found


def _compressor(*, plane: bool) -> zstandard.ZstdCompressor:
    name = "planes" if plane else "any"
    found: zstandard.ZstdCompressor | None = getattr(_local, name, None)
    if found is None:
        found = zstandard.ZstdCompressor(compression_params=_parameters(plane))
        setattr(_local, name, found)
    return found


@cache
def _parameters(plane: bool) -> zstandard.ZstdCompressionParameters:
    """Planes have skewed bytes and no repetitions: a tiny table leaves it to the entropy coder, instead of
    spending bytes and time on short matches that are there by chance."""
    if not plane:
        return zstandard.ZstdCompressionParameters.from_level(3)
    return zstandard.ZstdCompressionParameters.from_level(1, min_match=7, hash_log=6)
