"""A block as it is stored: a head that says how, then the pieces.

Three ways, whichever is smallest by a quick look at a sample: as it is (compressed where that helps), as
planes of numbers, or as planes of the difference from another block, its base, which the head names. The head
guards itself; the content is guarded by the block's name, which is the hash of the plain bytes.

The pieces of numbers: a plane for each upper byte, the highest first; the lower parts as they are, where
planes of them would gain nothing; what is left at the end. So the beginning of a base is all that a
difference of upper halves needs.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from gpunion.adapters.files import narrow, pieces, planes
from gpunion.adapters.files.forms import PLAIN, PLAIN_WIDTH, SAMPLE_BYTES, Base, Form, choose
from gpunion.adapters.files.kinds import AS_IT_IS, CODES, EXCEPTIONS, NARROW
from gpunion.adapters.files.native import JOINED, Native, native
from gpunion.adapters.files.native import Plane as NativePlane
from gpunion.adapters.files.pieces import Buffer
from gpunion.adapters.files.room import room
from gpunion.ports.vault import BLOCK_SIZE_BYTES, CorruptBlock, NewerFormat

MAGIC = b"GPV3"
# Magic, width, bytes of each number that are planes, distance, number of pieces, plain size, base; then each
# piece's length, and how it is packed.
_FIXED = struct.Struct("<4sBBBBI32s")
_PIECE = struct.Struct("<IB")
_CHECK = struct.Struct("<I")
ALIGNMENT = 8  # of every piece: numbers are read where they lie
PIECES_MAX = 32  # we make nine at most; a newer version may make more, and its head is to be read
HEAD_BYTES_MAX = _FIXED.size + PIECES_MAX * _PIECE.size + _CHECK.size + ALIGNMENT
STORED_BYTES_MAX = BLOCK_SIZE_BYTES + HEAD_BYTES_MAX + PIECES_MAX * ALIGNMENT
NO_BASE = bytes(32)
PIECE_HEAD_BYTES_MAX = 64

# So many differences from one base before a new one is stored whole. Fewer store more whole blocks, more
# drift further from the base (bench/checkpoint --series full).
DISTANCE_MAX = 8
# A base is whole when it is chosen; one that was lost and stored again may be a difference itself.
CHAIN_MAX = 4
# How much of a base is unpacked to see whether the rest is worth it: its end lies behind most files' heads.
BEGINNING_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    width: int
    top: int
    distance: int  # 0: whole; else how many checkpoints the base is behind
    plain_bytes: int
    base: str | None
    pieces: tuple[tuple[int, int], ...]

    @property
    def head_bytes(self) -> int:
        return _head_bytes(len(self.pieces))

    @property
    def stored_bytes(self) -> int:
        return self._end_of(len(self.pieces))

    @property
    def planes_end(self) -> int:
        return self._end_of(self.top)

    def _end_of(self, count: int) -> int:
        end = self.head_bytes
        for length, _ in self.pieces[:count]:
            end = _aligned(end) + length
        return end

    def sizes(self) -> list[int]:
        """What each piece has to come to; CorruptBlock, NewerFormat for a head that nobody here writes."""
        known = self.width == self.top == PLAIN_WIDTH or (
            self.width in planes.WIDTHS and self.top in (self.width, self.width // 2) and self.top > 1
        )
        if not known:
            raise NewerFormat
        if self.plain_bytes > BLOCK_SIZE_BYTES:
            raise CorruptBlock("a stored block's head says what cannot be")
        count, rest = divmod(self.plain_bytes, self.width)
        found = [count] * self.top
        if self.top < self.width:
            found.append(count * (self.width - self.top))
        if rest:
            found.append(rest)
        if len(found) != len(self.pieces):
            raise CorruptBlock("a stored block has another number of pieces than its head says")
        return found


# From a stored block's first bytes: how many of it are wanted.
Enough = Callable[[Buffer], int]


@dataclass(frozen=True, slots=True)
class Packed:
    """A base as it is stored, for who has that: not all of it need be read then, nor unpacked."""

    read: Callable[[Enough], Buffer]

    @classmethod
    def of(cls, stored: Buffer) -> Packed:
        return cls(lambda enough: stored)


# The plain bytes of a base, or the base as it is stored.
BaseOf = Callable[[str], Buffer | Packed]


def encode(data: Buffer, base: Base | None = None) -> bytes:
    return bytes(pack(data, base))


def pack(data: Buffer, base: Base | None = None) -> memoryview:
    """Like `encode`; it lies in this thread's room until the next call."""
    form = choose(data, base if base is not None and len(base.data) == len(data) else None)
    try:
        return _pack_as(data, form)
    except _Unfit:
        return _pack_as(data, PLAIN)


class _Unfit(Exception):
    """The rest is of another kind than the sample; or native code has packed what does not come back."""


def _pack_as(data: Buffer, form: Form) -> memoryview:
    stored = room("stored", STORED_BYTES_MAX)
    count = form.top + (form.top < form.width) + (len(data) % form.width > 0)
    start = end = _head_bytes(count)
    # As it would be if nothing got smaller, and each piece said so.
    end_max = min(start + len(data) + count * PIECE_HEAD_BYTES_MAX, len(stored))
    about = bytearray()
    for kind, parts, content in _packed(data, form):
        if _aligned(end) + pieces.size_of(parts) > end_max:
            raise _Unfit
        about += _PIECE.pack(pieces.size_of(parts), kind)
        stored[end : _aligned(end)] = bytes(_aligned(end) - end)
        end = _aligned(end)
        for part in parts:
            # By numpy, which lets other threads work meanwhile.
            planes.numbers(stored[end : end + len(part)], 1)[:] = planes.numbers(part, 1)
            end += len(part)
        if kind in (CODES, NARROW) and not pieces.comes_back(
            stored[end - pieces.size_of(parts) : end], kind, content
        ):
            raise _Unfit
    fixed = _FIXED.pack(
        MAGIC,
        form.width,
        form.top,
        form.base.distance if form.base else 0,
        count,
        len(data),
        bytes.fromhex(form.base.name) if form.base else NO_BASE,
    )
    head = (fixed + about).ljust(start - _CHECK.size, b"\0")
    stored[:start] = head + _CHECK.pack(zlib.crc32(head))
    return stored[:end]


def read_head(stored: Buffer) -> Head:
    """From the beginning of a stored block. CorruptBlock for anything but what `encode` made."""
    try:
        magic, width, top, distance, count, plain_bytes, base = _FIXED.unpack_from(stored)
        end = _head_bytes(count) - _CHECK.size
        (check,) = _CHECK.unpack_from(stored, end)
        found = tuple(_PIECE.iter_unpack(stored[_FIXED.size : _FIXED.size + count * _PIECE.size]))
    except struct.error as error:
        raise CorruptBlock("a stored block's head is cut short") from error
    if magic != MAGIC or zlib.crc32(stored[:end]) != check:
        raise CorruptBlock("a stored block's head is damaged")
    return Head(
        width=width,
        top=top,
        distance=distance,
        plain_bytes=plain_bytes,
        base=None if base == NO_BASE else base.hex(),
        pieces=found,
    )


def enough_for_a_difference(start: Buffer) -> int:
    """Of a stored block that begins so: its planes, if it is whole. What is below them, a difference from it
    does not look at."""
    head = read_head(start)
    return head.planes_end if head.base is None else head.stored_bytes


def decode(stored: Buffer, base_of: BaseOf) -> bytes:
    """The plain bytes, not yet verified."""
    return bytes(unpack(stored, base_of))


def unpack(stored: Buffer, base_of: BaseOf, depth: int = 0) -> memoryview:
    """Like `decode`; it lies in this thread's room, or in `stored`, until the next call."""
    if depth >= CHAIN_MAX:
        raise CorruptBlock(f"a chain of differences is longer than {CHAIN_MAX}")
    head = _checked(stored)
    sizes, places = head.sizes(), _places(stored, head)
    if head.width == PLAIN_WIDTH:
        return pieces.unpacked(places[0], head.pieces[0][1], sizes[0], f"plain-{depth}")
    library = native() if (head.width, head.top) in JOINED else None
    small = head.width == head.top == 2 and head.base is None and head.pieces[0][1] == EXCEPTIONS
    if small and library is None:
        return _unpack_small_numbers(head, places, sizes, depth)
    # Before this one's planes: what a base needs of the room it has used when this begins.
    earlier = None if head.base is None else _earlier(head, base_of, depth)
    out = room(f"plain-{depth}", head.plain_bytes)
    at = head.top
    low = None
    if head.top < head.width:
        low = planes.numbers(_as_it_is(places[at], head.pieces[at], sizes[at]), head.width - head.top)
        at += 1
    own, numbers = _Planes(head, places, depth), planes.numbers(out, head.width)
    if library is not None and not callable(earlier):
        _join(library, own, earlier, low, numbers)
    else:
        before = earlier.unpacked() if isinstance(earlier, _Planes) else earlier
        planes.join(own.unpacked(), low, numbers, before)
    _unpack_rest(head, places, sizes, at, out)
    return out


@dataclass(frozen=True, slots=True)
class _Planes:
    """Of one stored block, before they are unpacked."""

    head: Head
    places: Sequence[memoryview]
    depth: int

    def unpacked(self, count: int | None = None) -> list[planes.Plane]:
        """The lowest first; all of each, or so many bytes."""
        found = [
            pieces.unpacked(place, kind, self._size(count), use, beginning=count is not None)
            for place, kind, use in self._each()
        ]
        return [planes.numbers(plane, 1) for plane in reversed(found)]

    def native_readers(self) -> list[NativePlane]:
        """The highest first."""
        return [pieces.native_reader(place, kind, self._size(None), use) for place, kind, use in self._each()]

    def _each(self) -> Iterator[tuple[memoryview, int, str]]:
        for index in range(self.head.top):
            yield self.places[index], self.head.pieces[index][1], f"plane-{self.depth}-{index}"

    def _size(self, count: int | None) -> int:
        return self.head.plain_bytes // self.head.width if count is None else count


def _join(
    library: Native, own: _Planes, earlier: _Planes | None, low: planes.Numbers | None, out: planes.Numbers
) -> None:
    readers = own.native_readers() + (earlier.native_readers() if earlier is not None else [])
    if not library.join(readers, low, out):
        raise CorruptBlock("a stored block's planes are damaged")


def _unpack_small_numbers(
    head: Head, places: Sequence[memoryview], sizes: Sequence[int], depth: int
) -> memoryview:
    """Token ids and the like: the lower bytes are widened, and what is above them is put in where it is."""
    out = room(f"plain-{depth}", head.plain_bytes)
    values = planes.numbers(out, head.width)
    low = pieces.unpacked(places[1], head.pieces[1][1], sizes[1], f"plane-{depth}-1")
    values[:] = planes.numbers(low, 1)
    pieces.scatter(places[0], values.view("u1")[1::2], filled_with=0)
    _unpack_rest(head, places, sizes, head.top, out)
    return out


def _unpack_rest(
    head: Head, places: Sequence[memoryview], sizes: Sequence[int], at: int, out: memoryview
) -> None:
    if at < len(places):
        kind = head.pieces[at][1]
        out[head.plain_bytes - sizes[at] :] = pieces.unpacked(places[at], kind, sizes[at], "rest")


def is_promising(data: Buffer, stored: Buffer) -> bool:
    """Whether a difference from that block may be worth unpacking all of it. A look at its beginning tells:
    a shard of a data set has nothing in common with the one before it, and a tensor has everywhere."""
    head = read_head(stored)
    if head.base is not None or head.plain_bytes != len(data):
        return False
    size_bytes = min(len(data), BEGINNING_BYTES)
    part = slice(max(0, size_bytes - SAMPLE_BYTES) // 8 * 8, size_bytes)
    old = _beginning(stored, head, size_bytes)[part]
    new = memoryview(data)[part]
    return choose(new, Base(name=NO_BASE.hex(), data=old, distance=1)).base is not None


def _checked(stored: Buffer) -> Head:
    head = read_head(stored)
    if len(stored) != head.stored_bytes:
        raise CorruptBlock("a stored block has another size than its head says")
    return head


def _places(stored: Buffer, head: Head) -> list[memoryview]:
    whole = memoryview(stored)
    lengths = [length for length, _ in head.pieces]
    starts = accumulate(map(_aligned, lengths), initial=head.head_bytes)
    return [whole[start : start + length] for start, length in zip(starts, lengths, strict=False)]


def _as_it_is(place: memoryview, piece: tuple[int, int], size_bytes: int) -> memoryview:
    if piece[1] != AS_IT_IS:
        raise NewerFormat
    return pieces.unpacked(place, AS_IT_IS, size_bytes, "")


def _earlier(head: Head, base_of: BaseOf, depth: int) -> planes.Earlier | _Planes:
    assert head.base is not None
    base = base_of(head.base)
    if isinstance(base, Packed):
        stored = base.read(lambda start: _enough(head, read_head(start)))
        about = read_head(stored)
        if about.plain_bytes != head.plain_bytes:
            raise CorruptBlock("a base has another size than the block that needs it")
        if _is_alike(head, about):
            about.sizes()
            return _Planes(about, _places(stored, about), depth + 1)
        base = unpack(stored, base_of, depth + 1)
    if len(base) != head.plain_bytes:
        raise CorruptBlock("a base has another size than the block that needs it")
    return planes.earlier_of(base, head.width, head.top)


def _enough(head: Head, base: Head) -> int:
    """Of a base in the same form the planes, with which it begins: what is below them is not looked at."""
    return base.planes_end if _is_alike(head, base) else STORED_BYTES_MAX + 1


def _is_alike(head: Head, base: Head) -> bool:
    return base.base is None and (base.width, base.top) == (head.width, head.top)


def _beginning(stored: Buffer, head: Head, size_bytes: int) -> memoryview:
    """Of a block that is stored whole. `size_bytes` is all of it, or so many whole numbers."""
    if size_bytes == head.plain_bytes:
        return unpack(stored, lambda base: b"")
    head.sizes()
    places = _places(stored, head)
    if head.width == PLAIN_WIDTH:
        return pieces.unpacked(places[0], head.pieces[0][1], size_bytes, "plain-0", beginning=True)
    count = size_bytes // head.width
    out = room("plain-0", size_bytes)
    low = None
    if head.top < head.width:
        if head.pieces[head.top][1] != AS_IT_IS:
            raise NewerFormat
        low = planes.numbers(places[head.top][: count * (head.width - head.top)], head.width - head.top)
    planes.join(_Planes(head, places, 0).unpacked(count), low, planes.numbers(out, head.width), None)
    return out


def _packed(data: Buffer, form: Form) -> Iterator[tuple[int, list[Buffer], Buffer]]:
    """One piece after the other, and what it has to come to; each may lie in this thread's room until the
    next is asked for."""
    if form.narrow is not None:
        yield NARROW, narrow.packed(data, form.narrow), data
        return
    if form.width == PLAIN_WIDTH:
        yield *pieces.packed(data, plane=False), data
        return
    values = planes.numbers(data, form.width)
    split = [planes.numbers(room(f"split-{index}", values.size), 1) for index in range(form.top)]
    earlier = None if form.base is None else planes.earlier_of(form.base.data, form.width, form.top)
    planes.split(values, split, earlier)
    for plane in reversed(split):
        yield *pieces.packed(plane.data, plane=True), plane.data
    if form.top < form.width:
        low_bytes = values.size * (form.width - form.top)
        low = room("low", low_bytes)
        planes.split_low(values, planes.numbers(low, form.width - form.top))
        yield AS_IT_IS, [low], low
    rest = memoryview(data)[values.nbytes :]
    if rest:
        yield *pieces.packed(rest, plane=True), rest


def _head_bytes(count: int) -> int:
    """With room before the check, so that the first piece is aligned."""
    return _aligned(_FIXED.size + count * _PIECE.size + _CHECK.size)


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT
