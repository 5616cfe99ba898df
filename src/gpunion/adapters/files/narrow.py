"""Short numbers of which most are small, such as token ids: two bits say which of four widths each one has.

That comes to what an entropy coder makes of their lower bytes, and needs none: a processor puts four of them
where they belong with one instruction. numpy needs twenty times as long and packs nothing so; it only reads
it, so that what was stored elsewhere can be read everywhere.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING

from gpunion.adapters.files.native import native
from gpunion.adapters.files.room import room
from gpunion.ports.vault import CorruptBlock

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from gpunion.adapters.files.planes import Plane

    Short = NDArray[numpy.uint16]

Buffer = bytes | memoryview

NUMBER_BYTES = 2
FOUR_BYTES = 4 * NUMBER_BYTES  # there are always four, the last of which may be of no meaning
WIDTHS, WHICH_BITS = 4, 2
WIDTH_MAX = 16
SPARE_BYTES = 16  # as in narrow.c: behind the last bit, so that a look at several numbers stays inside
# The four widths, the least number, which is taken from all, how many there are, and bytes of their bits.
_HEAD = struct.Struct("<4sHxxII")
# Numbers that numpy unpacks at a time: it needs forty times their size.
STRIP = 128 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How numbers like these are packed best, and what each comes to."""

    least: int
    widths: tuple[int, ...]
    bits: float


def shape_of(sample: Short, numbers: Short) -> Shape:
    """The widths by a sample; it need not have the least and the largest in it."""
    import numpy

    least = int(numbers.min())
    widest = (int(numbers.max()) - least).bit_length()
    lengths = numpy.frexp((sample - least).astype("f4"))[1]
    # Of how many of the sample so many bits, or fewer, are enough.
    enough = numpy.bincount(lengths, minlength=WIDTH_MAX + 1).cumsum() / sample.size
    choices = _choices(widest)
    saved = (numpy.diff(choices) * enough[choices[:, :-1]]).sum(axis=1)
    best = int(saved.argmax())
    widths = tuple(choices[best].tolist())
    return Shape(least=least, widths=widths, bits=WHICH_BITS + widest - float(saved[best]))


@cache
def _choices(widest: int) -> NDArray[numpy.intp]:
    """All sets of widths, the widest last."""
    import numpy

    rows = [(*smaller, widest) for smaller in combinations(range(widest), WIDTHS - 1)]
    return numpy.array(rows or [(widest,) * WIDTHS])


def numbers_of(data: Buffer) -> Short:
    import numpy

    return numpy.frombuffer(data, "<u2", count=len(data) // NUMBER_BYTES)


def packed(data: Buffer, shape: Shape) -> list[Buffer]:
    """Only where it was built."""
    import numpy

    library = native()
    assert library is not None
    numbers = numbers_of(data)
    which_bytes = _which_bytes(numbers.size)
    which, bits = room("which", which_bytes), room("bits", FOUR_BYTES * which_bytes + SPARE_BYTES)
    widths = numpy.array(shape.widths, "u1")
    bits_bytes = library.pack_narrow(
        numbers, widths, shape.least, numpy.frombuffer(which, "u1"), numpy.frombuffer(bits, "u1")
    )
    head = _HEAD.pack(widths.tobytes(), shape.least, numbers.size, bits_bytes)
    return [head, which, bits[:bits_bytes], memoryview(data)[numbers.nbytes :]]


def unpack(piece: memoryview, out: memoryview, *, whole: bool) -> None:
    """All of it, or as many numbers as there is room for."""
    import numpy

    if len(piece) < _HEAD.size:
        raise CorruptBlock("a stored block's narrow numbers are cut short")
    words, least, count, bits_bytes = _HEAD.unpack_from(piece)
    body = numpy.frombuffer(piece[_HEAD.size :], "u1")
    which_bytes, tail_bytes = _which_bytes(count), len(out) % NUMBER_BYTES if whole else 0
    sound = body.size >= which_bytes + bits_bytes + tail_bytes and bits_bytes >= SPARE_BYTES
    numbers = numbers_of(out)
    if not sound or numbers.size > count or (whole and numbers.size != count) or max(words) > WIDTH_MAX:
        raise CorruptBlock("a stored block's narrow numbers have other sizes than its head says")
    which, bits = body[:which_bytes], body[which_bytes : which_bytes + bits_bytes]
    widths = numpy.frombuffer(words, "u1")
    library = native()
    if library is not None:
        fits = library.unpack_narrow(which, bits, widths, least, numbers)
    else:
        fits = _unpack(which, bits, widths, least, numbers)
    if not fits:
        raise CorruptBlock("a stored block's narrow numbers are damaged")
    if tail_bytes:
        out[numbers.nbytes :] = piece[len(piece) - tail_bytes :]


def _unpack(which: Plane, bits: Plane, widths: Plane, least: int, out: Short) -> bool:
    import numpy

    # The four widths that each byte stands for, as one number: to take them is faster than rows of four.
    by_four = widths[numpy.arange(256)[:, numpy.newaxis] >> (0, 2, 4, 6) & 3].view("<u4").reshape(-1)
    masks = ((1 << numpy.arange(WIDTH_MAX + 1)) - 1).astype("u4")
    # At every byte the four that begin there.
    words = numpy.ndarray(bits.size - SPARE_BYTES + 1, "<u4", bits, strides=(1,))
    end = 0
    for start in range(0, out.size, STRIP):
        part = out[start : start + STRIP]
        wide = by_four.take(which[start // 4 : _which_bytes(start + part.size)]).view("u1")
        ends = wide.cumsum(dtype="i8")
        ends += end
        end = int(ends[-1])
        if end > 8 * (bits.size - SPARE_BYTES):
            return False
        ends -= wide
        begins = ends[: part.size]
        found = words[begins >> 3]
        found >>= (begins & 7).astype("u4")
        found &= masks.take(wide[: part.size])
        found += numpy.uint32(least)
        numpy.copyto(part, found, casting="unsafe")
    return True


def _which_bytes(count: int) -> int:
    return -(-count // 4)
