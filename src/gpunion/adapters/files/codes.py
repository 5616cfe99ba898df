"""A plane of few different bytes, in a few bits each: which of the common ones, or that it is another.

What an entropy coder makes of such planes is some percents smaller, and takes four times as long to give
back: in a restore from the page cache that is what a guest waits for (decision 0035). The others stand behind
the codes in their order, and may be codes again.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpunion.adapters.files.kinds import CODES
from gpunion.adapters.files.native import SPARE_BYTES, native
from gpunion.adapters.files.native import Plane as NativePlane
from gpunion.adapters.files.native import plane as native_plane
from gpunion.adapters.files.room import room
from gpunion.ports.vault import CorruptBlock

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from gpunion.adapters.files.planes import Plane

    Counts = NDArray[numpy.intp]

Buffer = bytes | memoryview

AT_ONCE = 8  # so many codes take a whole number of bytes, whatever their width
TABLE_BITS = 4  # as in planes.c: codes of so many bits stand for any bytes; wider ones for a range
BITS_MAX = 7
# Others that are codes again, and those once more, would gain next to nothing.
DEPTH_MAX = 2
# How many bits it is worth not to look for another among the others.
OTHER_BITS = 1.0
# Bytes that numpy unpacks at a time: it needs twenty times as many.
STRIP = 256 * 1024
# Bits of a code, whether the others are codes, bytes of the codes, how many others, the common bytes.
_HEAD = struct.Struct("<B?xxII16s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    bits: int
    common: tuple[int, ...]  # what each code stands for; there is one more, for the others
    each_bits: float  # what a byte comes to, with its share of the others
    others: Code | None = None  # how those are packed; None: as they are


def code_for(counts: Counts) -> Code | None:
    """The best for bytes that occur so often; None where as they are is better."""
    import numpy

    order = numpy.argsort(-counts, kind="stable")
    # How many of all are among the most common ones, by how many of those.
    among = numpy.concatenate(([0], counts[order].cumsum())).tolist()
    best, best_cost = None, 8.0
    for bits in range(1, BITS_MAX + 1):
        last = (1 << bits) - 1
        least, found = (0, among[last]) if bits <= TABLE_BITS else _range(counts, last)
        share = 1 - found / among[-1]
        inner = _inner(order, among, last) if share and bits <= TABLE_BITS else None
        each_bits = bits + share * (inner.each_bits if inner else 8)
        if each_bits + OTHER_BITS * share < best_cost:
            common = order[:last].tolist() if bits <= TABLE_BITS else range(least, least + last)
            best = Code(bits=bits, common=tuple(common), each_bits=each_bits, others=inner)
            best_cost = each_bits + OTHER_BITS * share
    return best


def _inner(order: Counts, among: list[int], skipped: int) -> Code | None:
    """For those that are not among the first."""
    rest = among[-1] - among[skipped]
    best, best_bits = 0, 8.0
    for bits in range(1, TABLE_BITS + 1):
        each_bits = bits + 8 * (among[-1] - among[skipped + (1 << bits) - 1]) / rest
        if each_bits < best_bits:
            best, best_bits = bits, each_bits
    if not best:
        return None
    common = order[skipped : skipped + (1 << best) - 1]
    return Code(bits=best, common=tuple(common.tolist()), each_bits=best_bits)


def _range(counts: Counts, count: int) -> tuple[int, int]:
    """So many bytes that follow each other and occur most often: the least, and how often."""
    import numpy

    sums = numpy.concatenate(([0], counts.cumsum()))
    found = sums[count:] - sums[:-count]
    least = int(found.argmax())
    return least, int(found[least])


def packed(plane: Plane, code: Code) -> list[Buffer]:
    """Only where there is native code. They lie in this thread's room until the next call."""
    return _packed(plane, code, DEPTH_MAX)


def _packed(plane: Plane, code: Code, depth: int) -> list[Buffer]:

    library = native()
    assert library is not None
    codes_bytes = _codes_bytes(plane.size, code.bits)
    codes, others = _array(f"codes-{depth}", codes_bytes + 8), _array(f"others-{depth}", plane.size)
    common = bytes(code.common[:16]).ljust(16, b"\0")
    count = library.pack_codes(plane, common, code.bits, codes, others)
    head = _HEAD.pack(code.bits, bool(code.others and count), codes_bytes, count, common)
    if code.others and count:
        rest = _packed(others[:count], code.others, depth - 1)
    else:
        rest = [others[:count].data]
    return [head, codes[:codes_bytes].data, *rest]


@dataclass(frozen=True, slots=True)
class Codes:
    """A plane of them, with all others unpacked."""

    bits: int
    common: bytes
    codes: Plane
    others: Plane  # with SPARE_BYTES behind

    def native(self) -> NativePlane:
        return native_plane(CODES, self.codes, common=self.common, others=self.others, bits=self.bits)


def read(piece: memoryview, size_bytes: int, use: str, depth: int = DEPTH_MAX) -> Codes:
    """As many of its bytes as are asked for, or more. The others lie in this thread's room for `use`."""
    import numpy

    if len(piece) < _HEAD.size:
        raise CorruptBlock("a stored block's codes are cut short")
    bits, more_codes, codes_bytes, count, common = _HEAD.unpack_from(piece)
    rest = numpy.frombuffer(piece[_HEAD.size :], "u1")
    wide = 1 <= bits <= BITS_MAX and codes_bytes >= _codes_bytes(size_bytes, bits)
    if not wide or rest.size < codes_bytes or count > codes_bytes * 8 // bits or (more_codes and depth <= 1):
        raise CorruptBlock("a stored block's codes have other sizes than their head says")
    codes, behind = rest[:codes_bytes], rest[codes_bytes:]
    others = _array(f"{use}-others", count + SPARE_BYTES)[:count]
    if more_codes:
        inner = read(piece[_HEAD.size + codes_bytes :], count, f"{use}-others", depth - 1)
        unpack(inner, others)
    elif behind.size != count:
        raise CorruptBlock("a stored block's codes have other sizes than their head says")
    else:
        others[:] = behind
    return Codes(bits, common, codes, others)


def unpack(found: Codes, out: Plane) -> None:
    """Into all of `out`."""
    library = native()
    if not (_unpack(found, out) if library is None else library.unpack_plane(found.native(), out)):
        raise CorruptBlock("a stored block's codes are damaged")


def _unpack(found: Codes, out: Plane) -> bool:
    import numpy

    bits, last = found.bits, (1 << found.bits) - 1
    table = numpy.zeros(last + 1, "u1")
    if bits <= TABLE_BITS:
        table[:last] = numpy.frombuffer(found.common, "u1")[:last]
    else:
        table[:last] = (numpy.arange(last) + found.common[0]) & 0xFF
    used = 0
    for start in range(0, out.size, STRIP):
        part = out[start : start + STRIP]
        first = start // AT_ONCE * bits
        taken = found.codes[first : first + _codes_bytes(part.size, bits)]
        single = numpy.unpackbits(taken, bitorder="little")[: part.size * bits].reshape(-1, bits)
        codes = single[:, 0].copy()
        for place in range(1, bits):
            codes |= single[:, place] << place
        table.take(codes, out=part)
        places = numpy.flatnonzero(codes == last)
        if used + places.size > found.others.size:
            return False
        part[places] = found.others[used : used + places.size]
        used += places.size
    return True


def _codes_bytes(count: int, bits: int) -> int:
    return -(-count // AT_ONCE) * bits


def _array(use: str, size_bytes: int) -> Plane:
    import numpy

    return numpy.frombuffer(room(use, size_bytes), "u1")
