"""What native code packed comes back by native code, by that of another processor, and by numpy alone."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpunion.adapters.files import codes, coding, forms, narrow, pieces
from gpunion.adapters.files.kinds import CODES, COMPRESSED, NARROW
from gpunion.adapters.files.native import Native, native, with_native
from gpunion.adapters.files.native import build as building
from gpunion.adapters.files.native.build import NotBuilt
from gpunion.ports.vault import CorruptBlock

BASE = "ab" * 32


@pytest.fixture(scope="module")
def ways(fast: Native, narrower: Native, portable: Native) -> list[Native | None]:
    return [fast, narrower, portable, None]


def skewed(seed: int, size: int, spread: float, kind: str = "normal") -> numpy.ndarray:
    chance = numpy.random.default_rng(seed)
    if kind == "normal":  # a range
        return chance.normal(128, spread, size).clip(0, 255).astype("u1")
    places = numpy.minimum(chance.geometric(1 / (1 + spread), size), 255)
    return chance.permutation(256).astype("u1")[places]  # here and there


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1000),
    size=st.sampled_from([1, 7, 8, 33, 1000, 8192 + 5, 300_001]),
    spread=st.sampled_from([0.3, 1.0, 2.5, 8.0, 20.0]),
    kind=st.sampled_from(["normal", "anywhere"]),
    part=st.floats(0, 1),
)
def test_a_plane_of_codes_comes_back_every_way_and_its_beginning_too(
    ways: list[Native | None], seed: int, size: int, spread: float, kind: str, part: float
) -> None:
    plane = skewed(seed, size, spread, kind)
    code = codes.code_for(numpy.bincount(plane, minlength=256))
    if code is None:
        return
    with with_native(ways[0]):
        piece = memoryview(b"".join(codes.packed(plane, code)))
    assert 8 * len(piece) <= code.each_bits * size + 8 * (60 + 2 * 8)  # as promised, with two heads
    for way in ways:
        with with_native(way):
            assert bytes(pieces.unpacked(piece, CODES, size, "test")) == plane.tobytes()
            beginning = int(part * size)
            found = pieces.unpacked(piece, CODES, beginning, "test", beginning=True)
            assert bytes(found) == plane[:beginning].tobytes()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1000),
    size=st.sampled_from([1, 3, 4, 15, 16, 17, 1000, 300_001]),
    least=st.sampled_from([0, 1, 7, 60_000]),
    largest=st.sampled_from([0, 1, 200, 5000, 65_535]),
    tail=st.sampled_from([b"", b"x"]),
    part=st.floats(0, 1),
)
def test_narrow_numbers_come_back_every_way_and_their_beginning_too(
    ways: list[Native | None], seed: int, size: int, least: int, largest: int, tail: bytes, part: float
) -> None:
    ids = numpy.random.default_rng(seed).zipf(1.3, size) - 1
    numbers = numpy.minimum(numpy.minimum(ids, largest) + least, 65_535).astype("u2")
    numbers[-4:] = numbers.max()  # the last ones take the most bits
    data = numbers.tobytes() + tail
    shape = narrow.shape_of(numbers[: 1 + size // 3], numbers)
    with with_native(ways[0]):
        piece = memoryview(b"".join(narrow.packed(data, shape)))
    for way in ways:
        with with_native(way):
            assert bytes(pieces.unpacked(piece, NARROW, len(data), "test")) == data
            beginning = 2 * int(part * size)
            found = pieces.unpacked(piece, NARROW, beginning, "test", beginning=True)
            assert bytes(found) == data[:beginning]


@pytest.mark.parametrize("size", [8, 9, 4096, 4097, 4098, 4099, 4100])
@pytest.mark.parametrize("largest", [True, False])
def test_numbers_of_full_width_lie_next_to_each_other(
    ways: list[Native | None], largest: bool, size: int
) -> None:
    """Four of them are as many bits as are looked at in one step; those of the last four, once, were lost."""
    numbers = numpy.full(size, 65_535 if largest else 0, "u2")
    numbers[:-4:97] = 1
    shape = narrow.Shape(least=0, widths=(0, 1, 3, 16), bits=0)
    with with_native(ways[0]):
        piece = memoryview(b"".join(narrow.packed(numbers.tobytes(), shape)))
    for way in ways:
        with with_native(way):
            assert bytes(pieces.unpacked(piece, NARROW, numbers.nbytes, "test")) == numbers.tobytes()


def state(seed: int, kind: str, changed: float = 0.0) -> bytes:
    values = numpy.random.default_rng(seed).standard_normal(150_001) * 0.02
    if changed:
        values += numpy.random.default_rng(9).standard_normal(values.size) * changed
    return values.astype(kind).tobytes()


def base_of(stored: bytes) -> coding.BaseOf:
    return lambda name: coding.Packed.of(stored)


@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
@pytest.mark.parametrize("changed", [1e-5, 1e-3])
def test_a_state_and_the_next_one_come_back_whoever_packed_and_unpacks(
    ways: list[Native | None], kind: str, changed: float
) -> None:
    first, second = state(1, kind), state(1, kind, changed)
    for packer in ways:
        with with_native(packer):
            whole = coding.encode(first)
            difference = coding.encode(second, forms.Base(name=BASE, data=first, distance=1))
        assert coding.read_head(difference).base == BASE
        for way in ways:
            with with_native(way):
                assert coding.decode(whole, lambda name: b"") == first
                assert coding.decode(difference, base_of(whole)) == second
                assert coding.decode(difference, lambda name: first) == second


def test_weights_are_packed_as_codes_where_those_are_fast_and_take_little_more(
    ways: list[Native | None],
) -> None:
    sizes = []
    for way, expected in zip(ways, (CODES, CODES, COMPRESSED, COMPRESSED), strict=True):
        with with_native(way):
            stored = coding.encode(state(1, "f4"))
        assert coding.read_head(stored).pieces[0][1] == expected
        sizes.append(len(stored))
    assert sizes[2] == sizes[3] < sizes[0] == sizes[1] < 1.03 * sizes[2]


def test_a_plane_that_is_of_another_kind_than_its_sample_is_compressed(fast: Native) -> None:
    plane = skewed(1, 400_000, 2.0)
    plane[50_000:150_000] = numpy.random.default_rng(1).integers(0, 256, 100_000)
    with with_native(fast):
        assert pieces.packed(plane.tobytes(), plane=True)[0] == COMPRESSED


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 100_000), change=st.integers(1, 255), cut=st.booleans(), tokens=st.booleans())
def test_damaged_codes_and_narrow_numbers_are_corrupt_or_give_as_many_other_bytes(
    ways: list[Native | None], seed: int, change: int, cut: bool, tokens: bool
) -> None:
    """The block's name tells that they are others. Nothing else may happen."""
    if tokens:
        size, kind = 2 * 5000, NARROW
        numbers = numpy.minimum(numpy.random.default_rng(1).zipf(1.3, 5000), 50_000).astype("u2")
        with with_native(ways[0]):
            piece = b"".join(narrow.packed(numbers.tobytes(), narrow.shape_of(numbers, numbers)))
    else:
        plane = skewed(3, 10_000, 4.0)
        size, kind = plane.size, CODES
        code = codes.code_for(numpy.bincount(plane, minlength=256))
        assert code is not None
        with with_native(ways[0]):
            piece = b"".join(codes.packed(plane, code))
    damaged = bytearray(piece)
    place = random.Random(seed).choice([seed % 28, seed % len(piece)])
    if cut:
        del damaged[place:]
    else:
        damaged[place] ^= change
    for way in ways:
        with with_native(way), contextlib.suppress(CorruptBlock):
            assert len(pieces.unpacked(memoryview(bytes(damaged)), kind, size, "test")) == size


def test_what_does_not_come_back_is_stored_otherwise(fast: Native, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was acknowledged may rest on our packing alone."""

    def forgetful(self: Native, content: numpy.ndarray, *words: object) -> int:
        count = right(self, content, *words)  # type: ignore[arg-type]
        words[-2][0] ^= 1  # type: ignore[index]
        return count

    right, data = Native.pack_codes, state(1, "f4")
    monkeypatch.setattr(Native, "pack_codes", forgetful)
    with with_native(fast):
        stored = coding.encode(data)
        assert all(kind != CODES for _, kind in coding.read_head(stored).pieces)
        assert coding.decode(stored, lambda name: b"") == data


@pytest.mark.parametrize("size", [200_000, 4 * 1024**2])
def test_a_block_that_is_of_another_kind_than_its_sample_takes_no_more_than_it_is(
    fast: Native, size: int
) -> None:
    noise = numpy.frombuffer(random.Random(1).randbytes(size), "u2").copy()
    small = numpy.minimum(numpy.random.default_rng(1).zipf(1.3, noise.size), 50_000)
    for place in (0, noise.size // 2 - 10_000, noise.size - 10_000):
        noise[place : place + 20_000] = small[place : place + 20_000]
    for way in (fast, None):
        with with_native(way):
            stored = coding.encode(noise.tobytes())
            assert len(stored) < size + 300
            assert coding.decode(stored, lambda name: b"") == noise.tobytes()


def test_codes_of_codes_of_codes_are_corrupt(ways: list[Native | None]) -> None:
    head = codes._HEAD.pack(1, True, 1, 8, bytes(16)) + b"\xff"
    for way in ways:
        with with_native(way), pytest.raises(CorruptBlock):
            pieces.unpacked(memoryview(head * 5 + b"12345678"), CODES, 8, "test")


@pytest.mark.parametrize("flags", [(), ("-DGPUNION_NOT_WIDEST",)], ids=["as built", "rows of 32"])
def test_no_function_leaves_the_memory_that_it_was_given(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """With a compiler that watches every access, and arguments that are anything."""
    library = tmp_path / "watched.so"
    try:
        watched = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
        building.build(library, *watched, *flags)
        watcher = subprocess.run(
            ["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (NotBuilt, OSError, subprocess.CalledProcessError) as why:
        pytest.skip(f"address sanitizer is absent: {why}")
    if not Path(watcher).is_absolute():
        pytest.skip("address sanitizer is absent: the compiler has none")
    environment = os.environ | {
        "LD_PRELOAD": os.path.realpath(watcher),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONMALLOC": "malloc",
    }
    ran = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("anything_goes.py")), str(library)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "calls" in ran.stdout


def test_where_there_is_no_compiler_that_is_said_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(NotBuilt, match=r"no C compiler here \(no-such-compiler\)"):
        building.build(tmp_path / "x.so")
    monkeypatch.setenv("CC", "env false")  # with words of its own
    with pytest.raises(NotBuilt, match="does not take it: it ended with 1"):
        building.build(tmp_path / "x.so")
    assert building.main() == 1
    assert "not built, so restores take longer" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_was_built_from_another_state_of_the_source_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fast: Native
) -> None:
    library = tmp_path / "x.so"
    building.build(library)
    Native(library)
    monkeypatch.setattr("gpunion.adapters.files.native.source", lambda: 1)
    with pytest.raises(OSError, match="another state of its source"):
        Native(library)


def test_it_can_be_switched_off() -> None:
    program = "from gpunion.adapters.files.native import native, why_not; print(native(), why_not())"
    environment = os.environ | {"GPUNION_NATIVE": "0"}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert ran.stdout.strip() == "None GPUNION_NATIVE=0 switches it off", ran.stderr


def test_writing_goes_on_where_a_write_was_short_and_says_what_is_in_the_way(
    tmp_path: Path, fast: Native
) -> None:
    data = random.Random(1).randbytes(100_000)
    with open(tmp_path / "file", "wb+") as file:
        fast.write_at(file.fileno(), data, 5, 4096)
    assert (tmp_path / "file").read_bytes() == bytes(5) + data
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises(OSError, match="No space left"):
        fast.write_at(full.fileno(), data, 0, 4096)


def test_what_is_used_here_is_what_was_built_here() -> None:
    try:
        found: Native | None = Native(building.LIBRARY)
    except OSError:
        found = None
    assert (native() is None) == (found is None or os.environ.get("GPUNION_NATIVE") == "0")
