"""Blocks as they are stored, and back."""

from __future__ import annotations

import random
import zlib

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunion.vault import codec
from gpunion.vault.compression import Kind, Way, opened, smaller, way_of
from gpunion.vault.manifest import BLOCK_SIZE_BYTES, CorruptBlock

FORMS = [
    codec.PLAIN,
    *(codec.Form(width, top) for width in codec.WIDTHS for top in (width, width // 2) if top > 1),
]


def weights(seed: int, count: int = 100_000, kind: str = "f4") -> bytes:
    return (numpy.random.default_rng(seed).standard_normal(count) * 0.02).astype(kind).tobytes()


def with_head(stored: bytes, **changes: int) -> bytes:
    """A head that is sound and says something else."""
    names = ("magic", "version", "width", "top", "kinds", "plain_bytes", "first_length")
    fields = dict(zip(names, codec._FIXED.unpack_from(stored), strict=False)) | changes
    rest = codec._FIXED.unpack_from(stored)[len(names) :]
    fixed = codec._FIXED.pack(*fields.values(), *rest)
    return fixed + codec._CHECK.pack(zlib.crc32(fixed)) + stored[codec.HEAD_BYTES :]


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=5000))
def test_any_bytes_come_back_whatever_they_are_like(data: bytes) -> None:
    assert codec.decode(codec.encode(data)) == data


@settings(max_examples=80, deadline=None)
@given(data=st.binary(max_size=500), form=st.sampled_from(FORMS), repeat=st.sampled_from([1, 1, 1, 3000]))
def test_every_form_comes_back_also_where_it_would_not_have_been_chosen(
    data: bytes, form: codec.Form, repeat: int
) -> None:
    data *= repeat  # over more than one strip, with the tail that is left of it
    assert codec.decode(codec.pack(data, form).tobytes()) == data


@pytest.mark.parametrize(("kind", "width"), [("f2", 2), ("f4", 4), ("f8", 8), ("i8", 8)])
def test_numbers_are_stored_as_planes_of_their_width(kind: str, width: int) -> None:
    data = weights(1, kind=kind) if kind != "i8" else numpy.arange(50_000).astype("i8").tobytes()
    stored = codec.encode(data)
    assert codec.read_head(stored).form.width == width
    assert len(stored) < 0.97 * len(data)
    assert codec.decode(stored) == data


def test_lower_halves_that_are_noise_stay_together() -> None:
    data = weights(1)
    head = codec.read_head(codec.encode(data))
    assert head.form == codec.Form(4, 2)
    assert (head.lengths[0], head.kinds & 3) == (len(data) // 2, 0)


@pytest.mark.parametrize("above", [0, 0x4200])
def test_token_ids_come_back_with_the_few_that_are_large(above: int) -> None:
    ids = numpy.minimum(numpy.random.default_rng(1).zipf(1.3, 200_000), 50_000).astype("u2") ^ above
    data = ids.astype("u2").tobytes() + b"x"
    stored = codec.encode(data)
    assert codec.read_head(stored).kinds >> 2 & 3 == Kind.EXCEPTIONS
    assert len(stored) < 0.45 * len(data)
    assert codec.decode(stored) == data


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damage_to_exceptions_is_a_fault_or_other_bytes_of_that_size(data: st.DataObject) -> None:
    ids = numpy.minimum(numpy.random.default_rng(1).zipf(1.3, 5000), 50_000).astype("u2").tobytes()
    stored = bytearray(codec.encode(ids))
    start = codec.HEAD_BYTES + codec.read_head(bytes(stored)).lengths[0]  # where the exceptions begin
    stored[data.draw(st.integers(start, min(start + 40, len(stored) - 1)))] ^= data.draw(st.integers(1, 255))
    try:
        assert len(codec.decode(bytes(stored))) == len(ids)
    except CorruptBlock:
        return


def test_a_plane_that_was_taken_for_mostly_one_byte_and_is_not_comes_back() -> None:
    """The rest may be of another kind than the sample."""
    noise = numpy.frombuffer(random.Random(1).randbytes(200_000), "u1").copy()
    for start in (0, (noise.size - 4096) // 2, noise.size - 4096):
        noise[start : start + 4096] = 0
    assert way_of(noise) is Way.EXCEPTIONS
    kind, parts = smaller(noise.data, Way.EXCEPTIONS)
    piece = memoryview(b"".join(parts))
    assert bytes(opened(piece, kind, "test", noise.size)) == noise.tobytes()


def test_text_is_simply_compressed_and_noise_left_alone() -> None:
    text, noise = b"a line of a log\n" * 1000, random.Random(1).randbytes(100_000)
    assert codec.read_head(codec.encode(text)).form == codec.PLAIN
    assert len(codec.encode(text)) < 0.1 * len(text)
    assert codec.encode(noise)[codec.HEAD_BYTES :] == noise


def test_the_same_bytes_are_packed_the_same_whatever_was_packed_before() -> None:
    first = codec.encode(weights(1))
    codec.encode(weights(2, 300_000, "f8"))
    assert codec.encode(weights(1)) == first


def test_a_block_of_another_version_is_a_fault_that_names_it() -> None:
    stored = codec.encode(weights(1))
    with pytest.raises(CorruptBlock, match="version 7 of the format, and this GPUnion reads version 1"):
        codec.decode(with_head(stored, version=7))


@pytest.mark.parametrize(
    "changes",
    [
        {"width": 3},
        {"width": 16, "top": 16},
        {"top": 3},
        {"top": 0},
        {"kinds": 1 << 16},
        {"kinds": 0b111111},
        {"plain_bytes": BLOCK_SIZE_BYTES + 1},
        {"plain_bytes": 1000},
        {"first_length": 0},
    ],
)
def test_a_head_that_says_what_cannot_be_is_refused(changes: dict[str, int]) -> None:
    with pytest.raises(CorruptBlock):
        codec.decode(with_head(codec.encode(weights(1)), **changes))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damage_to_a_head_is_seen(data: st.DataObject) -> None:
    stored = bytearray(codec.encode(weights(1, 500)))
    stored[data.draw(st.integers(0, codec.HEAD_BYTES - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptBlock):
        codec.read_head(bytes(stored))


@settings(max_examples=200, deadline=None)
@given(data=st.data(), kind=st.sampled_from(["f4", "f8", "i4"]))
def test_damage_to_the_rest_is_a_fault_or_other_bytes_of_the_same_size(
    data: st.DataObject, kind: str
) -> None:
    """Other bytes are not those of the block's name."""
    plain = weights(1, 3000, kind)
    stored = bytearray(codec.encode(plain))
    stored[data.draw(st.integers(codec.HEAD_BYTES, len(stored) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        assert len(codec.decode(bytes(stored))) == len(plain)
    except CorruptBlock:
        return


@pytest.mark.parametrize("cut", [0, 3, 40, 60, -1])
def test_a_block_that_is_cut_short_is_corrupt(cut: int) -> None:
    with pytest.raises(CorruptBlock):
        codec.decode(codec.encode(weights(1, 500))[:cut])


def test_a_whole_block_of_zeros_takes_next_to_nothing() -> None:
    stored = codec.encode(bytes(BLOCK_SIZE_BYTES))
    assert len(stored) < 1000
    assert codec.decode(stored) == bytes(BLOCK_SIZE_BYTES)
