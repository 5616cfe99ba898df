"""A block is packed here: a head, then its numbers taken apart into planes, each compressed where that helps.

Floats hardly compress as they lie: noise stands between the few bytes that repeat. Split into one plane a
byte, the exponents come together and compress. Where the lower halves are noise they stay together as they
are. Which width the numbers have, a sample tells; bytes that are no numbers are one plane. A block is packed
by itself: nothing is needed to read it but it. The head guards itself; the content is guarded by the block's
name, which is the hash of the plain bytes.

    head | lower halves as they are | planes, the lowest first | what is left at the end
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpunion.vault import compression
from gpunion.vault.compression import WORTH, Buffer, Way
from gpunion.vault.manifest import BLOCK_SIZE_BYTES, CorruptBlock
from gpunion.vault.room import room

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Bytes = NDArray[numpy.uint8]
    Counts = NDArray[numpy.intp]
    Numbers = NDArray[numpy.unsignedinteger[Any]]

VERSION = 1
MAGIC = b"GPB"
PIECES_MAX = 9  # eight planes and what is left
# Magic, version, width, bytes of each number that are planes, the kind of each piece (two bits), plain size,
# length of each piece; then a check of those.
_FIXED = struct.Struct(f"<3sBBBxxII{PIECES_MAX}I")
KIND_BITS = 2
_CHECK = struct.Struct("<I")
HEAD_BYTES = _FIXED.size + _CHECK.size
STORED_BYTES_MAX = BLOCK_SIZE_BYTES + HEAD_BYTES

WIDTHS = (2, 4, 8)  # bytes of a number: half, single and double precision
NO_NUMBERS = 1
SAMPLE_BYTES = 16 * 1024
SAMPLES = 3
# A file takes so much of a disk in any case, and looking for numbers took half the time of storing one.
NUMBERS_BYTES_MIN = 4096
# So many numbers at a time: few enough that what a step leaves stays in the cores' shared cache, and so many
# that threads seldom wait for each other between two steps (docs/measurements/checkpoint.md).
STRIP = 1024 * 1024
SHORT_BYTES = 2


@dataclass(frozen=True, slots=True)
class Form:
    width: int
    top: int  # bytes of each number that become planes; the others stay together as they are


PLAIN = Form(NO_NUMBERS, NO_NUMBERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    form: Form
    plain_bytes: int
    kinds: int
    lengths: tuple[int, ...]  # of the pieces

    @property
    def stored_bytes(self) -> int:
        return HEAD_BYTES + sum(self.lengths)


def encode(data: Buffer) -> bytes:
    return bytes(pack(data))


def pack(data: Buffer, form: Form | None = None) -> memoryview:
    """As it is stored; it lies in this thread's room until the next call."""
    form = form or choose(data)
    into = _Pieces(room("stored", STORED_BYTES_MAX))
    if form.width == NO_NUMBERS:
        into.add_smaller(data, Way.USUAL)
    else:
        values = _numbers(data, form.width)
        if form.top < form.width:
            _cast(_numbers(into.place(values.size * (form.width - form.top)), form.width - form.top), values)
        _add_planes(into, values, form)
        if len(data) > values.nbytes:
            into.add([memoryview(data)[values.nbytes :]])
    lengths = into.lengths + [0] * (PIECES_MAX - len(into.lengths))
    fixed = _FIXED.pack(MAGIC, VERSION, form.width, form.top, into.kinds, len(data), *lengths)
    into.stored[:HEAD_BYTES] = fixed + _CHECK.pack(zlib.crc32(fixed))
    return into.stored[: into.end]


class _Pieces:
    """One behind the other, where they are stored."""

    def __init__(self, stored: memoryview) -> None:
        self.stored = stored
        self.end = HEAD_BYTES
        self.lengths: list[int] = []
        self.kinds = 0

    def place(self, size_bytes: int) -> memoryview:
        """For a piece as it is: whoever asks fills it."""
        found = self.stored[self.end : self.end + size_bytes]
        self.end += size_bytes
        self.lengths.append(size_bytes)
        return found

    def add(self, parts: Sequence[Buffer]) -> None:
        place = self.place(sum(map(len, parts)))
        for part in parts:
            _bytes(place[: len(part)])[:] = _bytes(part)  # by numpy, which lets other threads work
            place = place[len(part) :]

    def add_smaller(self, data: Buffer, way: Way) -> None:
        kind, parts = compression.smaller(data, way)
        self.kinds |= kind << KIND_BITS * len(self.lengths)
        self.add(parts)


def read_head(stored: Buffer) -> Head:
    """From the beginning of a stored block. CorruptBlock for anything but what `pack` made."""
    try:
        magic, version, width, top, kinds, plain_bytes, *lengths = _FIXED.unpack_from(stored)
        (check,) = _CHECK.unpack_from(stored, _FIXED.size)
    except struct.error as error:
        raise CorruptBlock("a stored block's head is cut short") from error
    if magic != MAGIC or zlib.crc32(stored[: _FIXED.size]) != check:
        raise CorruptBlock("a stored block's head is damaged")
    if version != VERSION:
        raise CorruptBlock(
            f"a stored block has version {version} of the format, and this GPUnion reads version {VERSION}"
        )
    return Head(form=Form(width, top), plain_bytes=plain_bytes, kinds=kinds, lengths=tuple(lengths))


def decode(stored: Buffer) -> bytes:
    """The plain bytes, not yet verified."""
    return bytes(unpack(stored))


def unpack(stored: Buffer) -> memoryview:
    """Like `decode`; it lies in this thread's room, or in `stored`, until the next call."""
    head = read_head(stored)
    if len(stored) != head.stored_bytes:
        raise CorruptBlock("a stored block has another size than its head says")
    form, sizes = head.form, _sizes(head)
    if form.width == NO_NUMBERS:
        [plain] = _opened(stored, head, sizes, ("plain",))
        return plain
    out = room("plain", head.plain_bytes)
    names = [f"piece-{index}" for index in range(len(sizes))]
    found = _opened(stored, head, sizes, names)
    if head.plain_bytes % form.width:
        rest = found.pop()
        out[head.plain_bytes - len(rest) :] = rest
    low = _numbers(found.pop(0), form.width - form.top) if form.top < form.width else None
    _join([_bytes(plane) for plane in found], low, _numbers(out, form.width))
    return out


def choose(data: Buffer) -> Form:
    """What a sample says is smallest. Simpler forms win ties; each costs time in every restore.

    Planes have skewed bytes and few repetitions, so counting them tells how small they get: that takes a
    tenth of the time that packing them would."""
    if len(data) < NUMBERS_BYTES_MIN:
        return PLAIN
    sample = _sampled(data)
    best, best_bytes = PLAIN, float(min(len(sample), len(compression.compressed(sample, Way.USUAL))))
    widest = max(WIDTHS)
    counted = _counts(_bytes(sample)[: len(sample) // widest * widest].reshape(-1, widest))
    for width in WIDTHS:
        counts = counted.reshape(widest // width, width, 256).sum(axis=0)
        sizes = compression.by_entropy(counts)
        if sizes.sum() < WORTH * best_bytes:
            best_bytes = float(sizes.sum())
            half = width // 2
            noise = half > 1 and bool((sizes[:half] == counts[:half].sum(axis=1)).all())
            best = Form(width, half if noise else width)
    return best


def _sizes(head: Head) -> list[int]:
    """What each piece has to come to."""
    width, top = head.form.width, head.form.top
    known = head.form == PLAIN or (width in WIDTHS and top in (width, width // 2) and top > 1)
    if not known or head.plain_bytes > BLOCK_SIZE_BYTES:
        raise CorruptBlock("a stored block's head says what cannot be")
    count, rest = divmod(head.plain_bytes, width)
    sizes = [count] * top
    if top < width:
        sizes.insert(0, count * (width - top))
    if rest:
        sizes.append(rest)
    if any(head.lengths[len(sizes) :]) or head.kinds >> KIND_BITS * len(sizes):
        raise CorruptBlock("a stored block has another number of pieces than its head says")
    return sizes


def _add_planes(into: _Pieces, values: Numbers, form: Form) -> None:
    """Those that stay as they are lie below the others, mostly: they are split to where they are stored."""
    columns = values.view("u1").reshape(-1, form.width)[:, form.width - form.top :]
    ways = [compression.way_of(columns[:, index]) for index in range(form.top)]
    as_they_are = next((index for index, way in enumerate(ways) if way is not Way.AS_IT_IS), form.top)
    planes = [_bytes(into.place(values.size)) for _ in range(as_they_are)]
    planes += [_bytes(room(f"split-{index}", values.size)) for index in range(as_they_are, form.top)]
    _split(values, planes)
    for plane, way in zip(planes[as_they_are:], ways[as_they_are:], strict=True):
        into.add_smaller(plane.data, way)


def _opened(stored: Buffer, head: Head, sizes: Sequence[int], uses: Sequence[str]) -> list[memoryview]:
    found, at, whole = [], HEAD_BYTES, memoryview(stored)
    for index, (size_bytes, use) in enumerate(zip(sizes, uses, strict=True)):
        piece = whole[at : at + head.lengths[index]]
        at += len(piece)
        kind = head.kinds >> KIND_BITS * index & (1 << KIND_BITS) - 1
        found.append(compression.opened(piece, kind, use, size_bytes))
    return found


def _split(values: Numbers, planes: Sequence[Bytes]) -> None:
    """The upper bytes of each number into as many planes, the lowest of them first."""
    import numpy

    top, width = len(planes), values.itemsize
    for strip in _strips(values.size):
        upper = _scratch("upper", top, strip)
        if top == width:
            upper[:] = values[strip]
        else:
            shifted = _scratch("shifted", width, strip)
            numpy.right_shift(values[strip], 8 * (width - top), out=shifted)
            _cast(upper, shifted)
        for index, plane in enumerate(planes):
            if index:
                upper >>= 8
            _cast(plane[strip], upper)


def _join(planes: Sequence[Bytes], low: Numbers | None, out: Numbers) -> None:
    """The inverse of `_split`, with the lower halves where they were left together."""
    top = len(planes)
    for strip in _strips(out.size):
        upper = out[strip] if low is None else _scratch("upper", top, strip)
        upper[:] = planes[-1][strip]
        for plane in reversed(planes[:-1]):
            _make_way(upper)
            upper += plane[strip]
        if low is not None:
            whole = out[strip]
            whole[:] = upper
            whole <<= 8 * top
            whole |= low[strip]


def _cast(out: Numbers, values: Numbers) -> None:
    """The lower bytes of each, into memory that is there."""
    import numpy

    numpy.copyto(out, values, casting="unsafe")


def _make_way(upper: Numbers) -> None:
    """For another byte below. numpy multiplies short numbers in half the time that it takes to shift them."""
    if upper.itemsize == SHORT_BYTES:
        upper *= 256
    else:
        upper <<= 8


def _strips(count: int) -> Iterator[slice]:
    for start in range(0, count, STRIP):
        yield slice(start, min(start + STRIP, count))


def _scratch(use: str, width: int, strip: slice) -> Numbers:
    return _numbers(room(use, (strip.stop - strip.start) * width), width)


def _sampled(data: Buffer) -> Buffer:
    """The beginning, a part of the middle and the end, from places where a number of any width begins."""
    if len(data) <= SAMPLES * SAMPLE_BYTES:
        return data
    view = memoryview(data)
    gap = (len(data) - SAMPLE_BYTES) // (SAMPLES - 1) // 8 * 8
    return b"".join(view[start : start + SAMPLE_BYTES] for start in range(0, gap * SAMPLES, gap))


def _counts(table: Bytes) -> Counts:
    """How often each byte stands in each column."""
    import numpy

    width = table.shape[1]
    at = table + numpy.arange(0, 256 * width, 256, dtype="u2")
    return numpy.bincount(at.ravel(), minlength=256 * width).reshape(width, 256)


def _numbers(data: Buffer, width: int) -> Numbers:
    """As many whole numbers as there are; the caller keeps the rest."""
    import numpy

    return numpy.frombuffer(data, dtype=f"<u{width}", count=len(data) // width)


def _bytes(data: Buffer) -> Bytes:
    import numpy

    return numpy.frombuffer(data, "u1")
