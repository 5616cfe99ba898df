"""Numbers taken apart so that what they have in common lies together.

Floats hardly compress as they lie: noise stands between the few bytes that repeat. Split into one plane per
byte, the exponents come together and compress; subtracted from an earlier state of the same tensor, the upper
bytes become nearly constant. The lower half of a number is mostly noise, before and after: it is not even
split then, and a difference is taken of the upper halves alone. A difference of the integer patterns does
better than an exclusive or: a carry does not spread over the higher bits. All here is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gpunion.adapters.files.room import room

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Numbers = NDArray[numpy.unsignedinteger[Any]]
    Plane = NDArray[numpy.uint8]
    # Of an earlier state: the upper parts of so many numbers.
    Earlier = Callable[[slice], Numbers]

WIDTHS = (2, 4, 8)  # bytes of a number: half, single and double precision
SHORT_BYTES = 2
# So many numbers at a time: few enough that what a step leaves stays in the cores' shared cache, and so many
# that threads seldom wait for each other between two steps (docs/measurements/checkpoint.md).
STRIP = 1024 * 1024


def numbers(data: bytes | memoryview, width: int) -> Numbers:
    """As many whole numbers as there are; the caller keeps the rest."""
    import numpy

    return numpy.frombuffer(data, dtype=f"<u{width}", count=len(data) // width)


def split(values: Numbers, planes: Sequence[Plane], earlier: Earlier | None) -> None:
    """The upper bytes of each number into as many planes, the lowest of them first."""
    import numpy

    top = len(planes)
    for strip in _strips(values.size):
        upper = _scratch("split", top, strip)
        _upper(values, strip, upper)
        if earlier is not None:
            upper -= earlier(strip)
            upper += _balance(top)
        for index, plane in enumerate(planes):
            if index:
                upper >>= 8
            numpy.copyto(plane[strip], upper, casting="unsafe")


def join(
    planes: Sequence[Plane], low: Numbers | None, out: Numbers, earlier: Earlier | Sequence[Plane] | None
) -> None:
    """The inverse of `split`, with what `split_low` left of each number.

    What an earlier state was may come as planes: adding them up is less work than joining both."""
    top = len(planes)
    for strip in _strips(out.size):
        upper = out[strip] if low is None else _scratch("join", top, strip)
        if earlier is None:
            _join_strip([planes], strip, upper)
        elif callable(earlier):
            _join_strip([planes], strip, upper)
            upper += earlier(strip)
            upper -= _balance(top)
        else:
            _join_strip([planes, earlier], strip, upper)
            upper -= _balance(top)
        if low is not None:
            whole = out[strip]
            whole[:] = upper
            whole <<= 8 * top
            whole |= low[strip]


def difference(new: Numbers, old: Numbers) -> Numbers:
    """As `split` takes it, of whole numbers."""
    return new - old + _balance(new.itemsize)


def split_low(values: Numbers, low: Numbers) -> None:
    import numpy

    numpy.copyto(low, values, casting="unsafe")


def earlier_of(data: bytes | memoryview, width: int, top: int) -> Earlier:
    values = numbers(data, width)

    def upper_of(strip: slice) -> Numbers:
        if top == width:
            return values[strip]
        upper = _scratch("earlier", top, strip)
        _upper(values, strip, upper)
        return upper

    return upper_of


def _join_strip(sources: Sequence[Sequence[Plane]], strip: slice, upper: Numbers) -> None:
    """The sum of all sources, each in planes. What leaves the highest byte upwards is lost in any case."""
    import numpy

    highest, *others = (planes[-1][strip] for planes in sources)
    for other in others:
        highest = numpy.add(highest, other, out=_scratch("highest", 1, strip))
    upper[:] = highest
    for index in reversed(range(len(sources[0]) - 1)):
        _make_way(upper)
        for planes in sources:
            upper += planes[index][strip]


def _make_way(upper: Numbers) -> None:
    """For another byte below. numpy multiplies short numbers in half the time that it takes to shift them."""
    if upper.itemsize == SHORT_BYTES:
        upper *= 256
    else:
        upper <<= 8


def _upper(values: Numbers, strip: slice, upper: Numbers) -> None:
    import numpy

    if upper.itemsize == values.itemsize:
        upper[:] = values[strip]
        return
    shifted = _scratch("shifted", values.itemsize, strip)
    numpy.right_shift(values[strip], 8 * (values.itemsize - upper.itemsize), out=shifted)
    numpy.copyto(upper, shifted, casting="unsafe")


def _balance(top: int) -> int:
    """Added to a difference it puts the middle of every byte but the highest at zero change: a small change
    leaves all bytes above it alone, whichever its sign."""
    return int.from_bytes(b"\x80" * (top - 1), "little")


def _strips(count: int) -> Iterator[slice]:
    for start in range(0, count, STRIP):
        yield slice(start, min(start + STRIP, count))


def _scratch(use: str, width: int, strip: slice) -> Numbers:
    return numbers(room(use, (strip.stop - strip.start) * width), width)
