"""In which form a block is stored, by a look at a sample of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpunion.adapters.files import narrow, pieces, planes
from gpunion.adapters.files.narrow import Shape
from gpunion.adapters.files.native import packs
from gpunion.adapters.files.pieces import WORTH, Buffer

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Counts = NDArray[numpy.intp]
    Sizes = NDArray[numpy.float64]

SAMPLE_BYTES = 16 * 1024
SAMPLES = 3
PLAIN_WIDTH = 1
# A file takes so much of a disk in any case, and looking for numbers took half the time of storing one.
NUMBERS_BYTES_MIN = 4096
# How much more room narrow numbers may take than planes: they come back in a quarter of the time.
NARROW_WORTH = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A block to take the difference from, and how far behind that base would be."""

    name: str
    data: Buffer
    distance: int


@dataclass(frozen=True, slots=True)
class Form:
    width: int
    top: int  # bytes of each number that become planes; the others stay together as they are
    base: Base | None = None
    narrow: Shape | None = None  # of the numbers that a plain form has nothing but


PLAIN = Form(PLAIN_WIDTH, PLAIN_WIDTH)


def choose(data: Buffer, base: Base | None) -> Form:
    """What the sample says is smallest. Simpler forms win ties; each costs time in every restore.

    Planes have skewed bytes and no repetitions, so counting them tells how small they get: that takes a tenth
    of the time that packing them would."""
    if len(data) < NUMBERS_BYTES_MIN:
        return PLAIN
    sample = _sampled(data)
    best, best_bytes = PLAIN, float(pieces.size_of(pieces.packed(sample, plane=False)[1]))
    old = None if base is None else _sampled(base.data)
    for candidate_base in (None, base) if base else (None,):
        for width, counts in _counted(sample, old if candidate_base else None):
            sizes = _sizes(counts)
            if sizes.sum() < WORTH * best_bytes:
                best_bytes = float(sizes.sum())
                half = width // 2
                noise = half > 1 and bool((sizes[:half] == counts[:half].sum(axis=1)).all())
                best = Form(width, half if noise else width, candidate_base)
    if best.width == narrow.NUMBER_BYTES and best.base is None and packs():
        shape = narrow.shape_of(narrow.numbers_of(sample), narrow.numbers_of(data))
        if shape.bits / 8 * len(sample) / narrow.NUMBER_BYTES < NARROW_WORTH * best_bytes:
            return Form(PLAIN_WIDTH, PLAIN_WIDTH, narrow=shape)
    return best


def _sampled(data: Buffer) -> Buffer:
    """The beginning, a part of the middle and the end, from places where a number of any width begins."""
    if len(data) <= SAMPLES * SAMPLE_BYTES:
        return data
    view = memoryview(data)
    gap = (len(data) - SAMPLE_BYTES) // (SAMPLES - 1) // 8 * 8
    return b"".join(view[start : start + SAMPLE_BYTES] for start in range(0, gap * SAMPLES, gap))


def _counted(sample: Buffer, old: Buffer | None) -> list[tuple[int, Counts]]:
    """How often each byte stands at each place of a number, for every width."""
    if old is None:
        widest = max(planes.WIDTHS)
        counts = _count(planes.numbers(sample, widest))
        return [(width, counts.reshape(widest // width, width, 256).sum(axis=0)) for width in planes.WIDTHS]
    return [
        (width, _count(planes.difference(planes.numbers(sample, width), planes.numbers(old, width))))
        for width in planes.WIDTHS
    ]


def _count(values: planes.Numbers) -> Counts:
    import numpy

    width = values.itemsize
    places = numpy.arange(0, 256 * width, 256, dtype="u2")
    at = values.view("u1").reshape(-1, width) + places
    return numpy.bincount(at.ravel(), minlength=256 * width).reshape(width, 256)


def _sizes(counts: Counts) -> Sizes:
    """What each plane comes to: its entropy, and a table of the bytes that occur. As long as it is where
    that is no gain."""
    import numpy

    total = counts.sum(axis=1)
    bits = total * numpy.log2(total) - (counts * numpy.log2(numpy.maximum(counts, 1))).sum(axis=1)
    kinds = (counts > 0).sum(axis=1)
    packed = bits / 8 + kinds / 2
    found: Sizes = numpy.where(packed < WORTH * total, packed, total)
    return found
