"""A program for `test_native`: calls every function of the library with anything, in memory of exact size.

Nothing may be read or written outside of it; whoever watches ends this process then.
"""

from __future__ import annotations

import ctypes
import mmap
import random
import sys
from functools import cache
from pathlib import Path

import numpy

from gpunion.adapters.files.kinds import AS_IT_IS, CODES, EXCEPTIONS
from gpunion.adapters.files.narrow import SPARE_BYTES as BEHIND_BYTES
from gpunion.adapters.files.native import SPARE_BYTES, Native, Plane, plane

ROUNDS = 3000
BRINK_BYTES = 1024 * mmap.PAGESIZE


def main(library: Path) -> None:
    native, chance = Native(library), random.Random(1)
    calls = 0
    for _ in range(ROUNDS):
        count = chance.choice([0, 1, 7, 8, 31, 32, 33, 100, 8191, 8192, 8200, 20_000])
        planes = [any_plane(chance, count, number) for number in range(chance.choice([2, 4]))]
        kept = [array for _, arrays in planes for array in arrays]
        native.unpack_plane(planes[0][0], numpy.empty(count, "u1"))
        low = chance.choice([None, numpy.zeros(count, "u2")])
        native.join([found for found, _ in planes], low, numpy.empty(count, "u2" if low is None else "u4"))
        pack(native, chance, count)
        any_narrow(native, chance, count)
        calls += 5
        del kept
    print(calls, "calls")


def any_plane(chance: random.Random, count: int, number: int) -> tuple[Plane, list[numpy.ndarray]]:
    kind = chance.choice([AS_IT_IS, EXCEPTIONS, CODES, CODES, CODES, 9])
    bits = chance.choice([1, 2, 3, 4, 5, 6, 7, chance.randrange(300)])
    needed = {AS_IT_IS: count, EXCEPTIONS: chance.randrange(count + 2), CODES: -(-count // 8) * bits}
    size = max(0, needed.get(kind, 5) + chance.choice([0, 0, 0, 0, -1, 1, 50]))
    content = at_the_brink(anything(chance, size), f"content {number}")
    others_count = chance.choice([size, size, 0, chance.randrange(count + 1)])
    spare = SPARE_BYTES if kind == CODES else 0
    others = at_the_brink(anything(chance, others_count + spare), f"others {number}")
    common = chance.randbytes(16)
    found = plane(kind, content, common=common, others=others[:others_count], bits=bits)
    return found, [content, others]


@cache
def brink(use: str) -> numpy.ndarray:
    """Memory with a page behind it that nobody may touch: who reads rows by one instruction is not watched by
    the compiler, and ends there."""
    room = mmap.mmap(-1, BRINK_BYTES + mmap.PAGESIZE)
    found = numpy.frombuffer(room, "u1")
    behind = ctypes.c_void_p(found.ctypes.data + BRINK_BYTES)
    if ctypes.CDLL(None).mprotect(behind, ctypes.c_size_t(mmap.PAGESIZE), 0):
        raise OSError("no page could be closed")
    return found[:BRINK_BYTES]


def at_the_brink(content: numpy.ndarray, use: str) -> numpy.ndarray:
    found = brink(use)[BRINK_BYTES - content.size :]
    found[:] = content
    return found


def anything(chance: random.Random, size: int) -> numpy.ndarray:
    """Mostly small numbers, mostly large ones, or noise."""
    found = numpy.frombuffer(chance.randbytes(size), "u1").copy()
    found[:] = chance.choice([found, found & 3, found | 0xFC, numpy.zeros_like(found)])
    return found


def pack(native: Native, chance: random.Random, count: int) -> None:
    bits = chance.randrange(1, 8)
    codes, others = numpy.empty(-(-count // 8) * bits + 8, "u1"), numpy.empty(count, "u1")
    native.pack_codes(anything(chance, count), chance.randbytes(16), bits, codes, others)


def any_narrow(native: Native, chance: random.Random, count: int) -> None:
    which = anything(chance, -(-count // 4))
    packed = anything(chance, chance.choice([0, 5, BEHIND_BYTES, chance.randrange(2 * count + 100)]))
    widths = numpy.array([chance.randrange(18) for _ in range(4)], "u1")
    native.unpack_narrow(which, packed, widths, chance.randrange(65536), numpy.empty(count, "u2"))
    numbers = anything(chance, 2 * count).view("u2")
    least = int(numbers.min()) if count else 0
    widths[3] = 16
    room = numpy.empty(8 * which.size + BEHIND_BYTES, "u1")
    native.pack_narrow(numbers, numpy.sort(widths.clip(max=16)), least, which, room)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
