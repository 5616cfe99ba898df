"""Planes as they are packed, and back."""

from __future__ import annotations

import contextlib
import random

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunion.adapters.files import pieces
from gpunion.adapters.files.kinds import AS_IT_IS, COMPRESSED, EXCEPTIONS
from gpunion.ports.vault import CorruptBlock, NewerFormat

pytestmark = pytest.mark.usefixtures("every_way")


def packed(data: bytes) -> tuple[int, bytes]:
    kind, parts = pieces.packed(data, plane=True)
    return kind, b"".join(parts)


def unpacked(piece: bytes, kind: int, size_bytes: int, *, beginning: bool = False) -> bytes:
    return bytes(pieces.unpacked(memoryview(piece), kind, size_bytes, "test", beginning=beginning))


def sparse(size: int, exceptions: dict[int, int], common: int = 0) -> bytes:
    plane = bytearray([common]) * size
    for place, value in exceptions.items():
        plane[place] = value
    return bytes(plane)


@settings(max_examples=100, deadline=None)
@given(
    size=st.sampled_from([1, 300, 70_000, 2 * pieces.STRIP + 100]),
    places=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=30),
    common=st.integers(0, 255),
    part=st.floats(0, 1),
)
def test_a_plane_with_exceptions_comes_back_whole_and_its_beginning_too(
    size: int, places: list[tuple[float, int]], common: int, part: float
) -> None:
    plane = sparse(size, {int(place * size): value for place, value in places}, common)
    kind, piece = packed(plane)
    assert unpacked(piece, kind, size) == plane
    beginning = int(part * size)
    assert unpacked(piece, kind, beginning, beginning=True) == plane[:beginning]


def test_exceptions_take_less_than_the_compressor_makes_of_them() -> None:
    numbers = numpy.random.default_rng(1)
    plane = numpy.where(numbers.random(100_000) < 0.15, numbers.integers(1, 200, 100_000), 0).astype("u1")
    kind, piece = packed(plane.tobytes())
    assert kind == EXCEPTIONS
    assert len(piece) < pieces.size_of(pieces._compressed(plane.tobytes(), plane=True)[1])


def test_what_repeats_is_compressed_and_noise_left_alone() -> None:
    assert packed(b"\0\0\0\1" * 10_000)[0] == COMPRESSED
    assert packed(random.Random(1).randbytes(10_000))[0] == AS_IT_IS
    assert packed(b"")[0] == AS_IT_IS


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10_000), change=st.integers(1, 255), cut=st.booleans())
def test_damaged_exceptions_are_corrupt_or_give_as_many_other_bytes(
    seed: int, change: int, cut: bool
) -> None:
    """The block's name tells that they are others. Nothing else may happen."""
    numbers = numpy.random.default_rng(2)
    plane = numpy.where(numbers.random(20_000) < 0.1, numbers.integers(1, 200, 20_000), 0).astype("u1")
    kind, piece = packed(plane.tobytes())
    damaged = bytearray(piece)
    place = random.Random(seed).choice([seed % 12, seed % len(piece)])
    if cut:
        del damaged[place:]
    else:
        damaged[place] ^= change
    with contextlib.suppress(CorruptBlock):
        assert len(unpacked(bytes(damaged), kind, plane.size)) == plane.size


def test_a_kind_that_nobody_knows_is_of_a_newer_version() -> None:
    with pytest.raises(NewerFormat):
        unpacked(b"abc", 7, 3)
