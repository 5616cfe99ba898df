"""Blocks as they are stored, and back."""

from __future__ import annotations

import random

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunion.adapters.files import coding, forms, planes
from gpunion.adapters.files.kinds import EXCEPTIONS, NARROW
from gpunion.adapters.files.native import packs
from gpunion.ports.vault import BLOCK_SIZE_BYTES, CorruptBlock

pytestmark = pytest.mark.usefixtures("every_way")

BASE = "ab" * 32


def no_base(name: str) -> bytes:
    raise AssertionError(f"{name} was asked for")


def weights(seed: int, count: int = 100_000, kind: str = "f4") -> bytes:
    return (numpy.random.default_rng(seed).standard_normal(count) * 0.02).astype(kind).tobytes()


def nudged(data: bytes, kind: str = "f4") -> bytes:
    values = numpy.frombuffer(data, kind)
    return (values + numpy.random.default_rng(9).standard_normal(values.size) * 1e-4).astype(kind).tobytes()


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=5000), other=st.binary(min_size=1, max_size=5000))
def test_any_bytes_come_back_whatever_they_are_like(data: bytes, other: bytes) -> None:
    assert coding.decode(coding.encode(data), no_base) == data
    base = forms.Base(name=BASE, data=(other * 5000)[: len(data)], distance=1)
    assert coding.decode(coding.encode(data, base), lambda name: base.data) == data


FORMS = [(width, top) for width in planes.WIDTHS for top in (width, width // 2) if top > 1]


@settings(max_examples=80, deadline=None)
@given(
    data=st.binary(max_size=500),
    other=st.binary(min_size=1, max_size=500),
    form=st.sampled_from(FORMS),
    base_form=st.sampled_from([(1, 1), *FORMS]),
    repeat=st.sampled_from([1, 1, 1, 3000]),
)
def test_every_form_comes_back_also_where_it_would_not_have_been_chosen(
    data: bytes, other: bytes, form: tuple[int, int], base_form: tuple[int, int], repeat: int
) -> None:
    data *= repeat  # over more than one strip, with the tail that is left of it
    base = forms.Base(name=BASE, data=(other * 500 * repeat)[: len(data)], distance=1)
    whole = coding._pack_as(data, forms.Form(*form)).tobytes()
    assert coding.decode(whole, no_base) == data
    difference = coding._pack_as(data, forms.Form(*form, base)).tobytes()
    assert coding.decode(difference, lambda name: base.data) == data
    # A base as it is stored, in the same form or in another.
    stored_base = coding._pack_as(base.data, forms.Form(*base_form)).tobytes()
    assert coding.decode(difference, lambda name: coding.Packed.of(stored_base)) == data
    assert coding.decode(difference, lambda name: only_enough_of(stored_base)) == data


def only_enough_of(stored: bytes) -> coding.Packed:
    return coding.Packed(lambda enough: stored[: enough(stored[: coding.HEAD_BYTES_MAX])])


def test_of_a_base_in_the_same_form_no_more_than_its_planes_is_read() -> None:
    first = weights(1)
    base, second = coding.encode(first), nudged(first)
    difference = coding.encode(second, forms.Base(name=BASE, data=first, distance=1))
    read: list[int] = []

    def beginning(enough: coding.Enough) -> bytes:
        read.append(enough(base[: coding.HEAD_BYTES_MAX]))
        return base[: read[0]]

    assert coding.decode(difference, lambda name: coding.Packed(beginning)) == second
    assert read[0] < len(first) / 2  # the lower halves are noise, and stay where they are
    with pytest.raises(CorruptBlock):
        coding.decode(difference, lambda name: coding.Packed(lambda enough: beginning(enough)[:-1]))


def test_a_chain_of_differences_that_never_ends_is_corrupt() -> None:
    data = weights(1)
    stored = coding.encode(nudged(data), forms.Base(name=BASE, data=data, distance=1))
    with pytest.raises(CorruptBlock, match="longer than"):
        coding.decode(stored, lambda name: coding.Packed.of(stored))


def test_only_numbers_whose_upper_parts_resemble_the_base_promise_a_difference() -> None:
    data = weights(1, 300_000)
    for kind, stored in (("as planes", coding.encode(data)), ("plain", bytes_as_they_are(data))):
        assert coding.is_promising(nudged(data), stored), kind
        assert not coding.is_promising(weights(2, 300_000), stored), kind
    assert not coding.is_promising(data[:-4], coding.encode(data))


def bytes_as_they_are(data: bytes) -> bytes:
    return coding._pack_as(data, forms.PLAIN).tobytes()


@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
def test_numbers_are_stored_as_planes_and_the_next_state_as_a_difference(kind: str) -> None:
    first = weights(1, kind=kind)
    second = nudged(first, kind)
    whole = coding.encode(second)
    difference = coding.encode(second, forms.Base(name=BASE, data=first, distance=3))
    assert coding.read_head(whole).width in planes.WIDTHS
    head = coding.read_head(difference)
    assert (head.base, head.distance) == (BASE, 3)
    assert len(difference) < len(whole) < len(second)
    assert coding.decode(difference, lambda name: first) == second


@pytest.mark.parametrize("above", [0, 0x4200])
@pytest.mark.parametrize("tail", [b"", b"x"])
def test_token_ids_come_back_with_the_few_that_are_large(above: int, tail: bytes) -> None:
    ids = numpy.minimum(numpy.random.default_rng(1).zipf(1.3, 200_000), 50_000).astype("u2")
    data = (ids ^ above).astype("u2").tobytes() + tail
    stored = coding.encode(data)
    head = coding.read_head(stored)
    assert (head.width, head.pieces[0][1]) == ((1, NARROW) if packs() and not above else (2, EXCEPTIONS))
    assert len(stored) < 0.5 * len(data)
    assert coding.decode(stored, no_base) == data


def test_a_tail_that_is_no_whole_number_comes_back() -> None:
    data = weights(1) + b"xyz"
    base = forms.Base(name=BASE, data=nudged(weights(1)) + b"abc", distance=1)
    assert coding.decode(coding.encode(data), no_base) == data
    assert coding.decode(coding.encode(data, base), lambda name: base.data) == data


def test_text_is_simply_compressed_and_noise_left_alone() -> None:
    text, noise = b"a line of a log\n" * 1000, random.Random(1).randbytes(100_000)
    assert coding.read_head(coding.encode(text)).width == forms.PLAIN_WIDTH
    assert coding.read_head(coding.encode(noise)).pieces == ((len(noise), False),)


def test_a_base_that_has_nothing_in_common_is_not_used() -> None:
    base = forms.Base(name=BASE, data=weights(2), distance=1)
    assert coding.read_head(coding.encode(weights(1), base)).base is None


def test_a_base_of_another_size_is_not_used_and_not_accepted() -> None:
    data = weights(1)
    short = forms.Base(name=BASE, data=data[:-4], distance=1)
    assert coding.read_head(coding.encode(data, short)).base is None
    stored = coding.encode(nudged(data), forms.Base(name=BASE, data=data, distance=1))
    with pytest.raises(CorruptBlock):
        coding.decode(stored, lambda name: data[:-4])


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damage_to_a_head_or_a_size_is_seen(data: st.DataObject) -> None:
    stored = bytearray(coding.encode(weights(1, 500)))
    head_bytes = coding.read_head(bytes(stored)).head_bytes
    place = data.draw(st.integers(0, head_bytes - 1))
    stored[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptBlock):
        coding.read_head(bytes(stored))


@pytest.mark.parametrize("cut", [0, 3, 40, 60, -1])
def test_a_block_that_is_cut_short_is_corrupt(cut: int) -> None:
    with pytest.raises(CorruptBlock):
        coding.decode(coding.encode(weights(1, 500))[:cut], no_base)


def test_a_whole_block_of_zeros_takes_next_to_nothing() -> None:
    stored = coding.encode(bytes(BLOCK_SIZE_BYTES))
    assert len(stored) < 1000
    assert coding.decode(stored, no_base) == bytes(BLOCK_SIZE_BYTES)
