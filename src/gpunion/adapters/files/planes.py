"""Numbers taken apart so that what they have in common lies together.

Floats hardly compress as they lie: noise stands between the few bytes that repeat. Split into one plane per
byte, the exponents come together and compress; subtracted from an earlier state of the same tensor, the upper
bytes become nearly zero. A difference of the integer patterns does better than an exclusive or: a carry
does not spread over the higher bits. All here is exact; nothing is rounded.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Numbers = NDArray[numpy.unsignedinteger[Any]]
    Plane = NDArray[numpy.uint8]

WIDTHS = (2, 4, 8)  # bytes of a number: half, single and double precision

_local = threading.local()


def numbers(data: bytes | memoryview, width: int) -> Numbers:
    """As many whole numbers as there are; the caller keeps the rest."""
    import numpy

    return numpy.frombuffer(data, dtype=f"<u{width}", count=len(data) // width)


def split(values: Numbers) -> list[Plane]:
    """One plane per byte, the lowest first. Uses up `values`."""
    planes: list[Plane] = []
    for _ in range(values.itemsize):
        planes.append(values.astype("u1"))
        values >>= 8
    return planes


def join(planes: Sequence[bytes | memoryview]) -> Numbers:
    """In pairs, and pairs of pairs: most of the work is then done on narrow numbers."""
    import numpy

    parts: list[Numbers] = [numpy.frombuffer(plane, dtype="u1") for plane in planes]
    while len(parts) > 1:
        parts = [_joined(low, high) for low, high in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _joined(low: Numbers, high: Numbers) -> Numbers:
    values: Numbers = high.astype(f"<u{2 * high.itemsize}")
    values <<= 8 * high.itemsize
    values |= low
    return values


def rotated(values: Numbers) -> Numbers:
    """The sign to the lower end, so that the exponent has the upper byte for itself."""
    import numpy

    turned: Numbers = numpy.left_shift(values, 1)
    turned |= values >> (8 * values.itemsize - 1)
    return turned


def unrotate(values: Numbers) -> None:
    """The inverse of `rotated`, in place: a megabyte not asked for is a thousand page faults saved."""
    import numpy

    scratch = _scratch(values)
    numpy.right_shift(values, 1, out=scratch)
    values <<= 8 * values.itemsize - 1
    values |= scratch


def difference(new: Numbers, old: Numbers) -> Numbers:
    """Small changes become small numbers, in either direction."""
    import numpy

    folded = new - old
    signed = folded.view(f"<i{new.itemsize}")
    scratch = _scratch(new).view(signed.dtype)
    numpy.right_shift(signed, 8 * new.itemsize - 1, out=scratch)
    signed <<= 1
    signed ^= scratch
    return folded


def advance(step: Numbers, old: Numbers) -> None:
    """The inverse of `difference`, in place: the difference becomes the new state."""
    import numpy

    sign = _scratch(step)
    numpy.bitwise_and(step, 1, out=sign)
    numpy.negative(sign, out=sign)
    step >>= 1
    step ^= sign
    step += old


def _scratch(like: Numbers) -> Numbers:
    """Room for one more array of that size, the same for every call of a thread."""
    import numpy

    room: bytearray | None = getattr(_local, "room", None)
    if room is None or len(room) < like.nbytes:
        room = _local.room = bytearray(like.nbytes)
    found: Numbers = numpy.frombuffer(room, dtype=like.dtype, count=like.size)
    return found
