"""Sizes are shown in the units that they were written in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpunion.text import counted, duration_in_words, size_in_words


@pytest.mark.parametrize(
    ("size_bytes", "words"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (80 * 10**9, "80 GB"),
        (1_500_000_000, "1.5 GB"),
        (16 * 2**30, "16 GiB"),
        (512 * 2**20, "512 MiB"),
        (2 * 10**12, "2 TB"),
        (3 * 2**40, "3 TiB"),
        (1_234_567_890, "1.1 GiB"),  # measured
    ],
)
def test_what_is_round_in_gb_was_written_so_and_the_rest_is_in_powers_of_1024(
    size_bytes: int, words: str
) -> None:
    assert size_in_words(size_bytes) == words


@given(st.integers(1, 2000), st.sampled_from(["MB", "GB", "MiB", "GiB", "TiB"]))
def test_a_size_means_what_was_written(count: int, unit: str) -> None:
    units = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
    units |= {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
    written = count * units[unit]
    number, shown = size_in_words(written).split()
    assert float(number) * units[shown] == pytest.approx(written, rel=0.05)


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 CPUs"), (1, "1 CPU"), (1.0, "1 CPU"), (1.5, "1.5 CPUs"), (8.0, "8 CPUs")]
)
def test_a_whole_number_is_written_without_a_point_and_one_is_no_plural(number: float, words: str) -> None:
    assert counted(number, "CPU") == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.25, "0.2 s"), (45, "45 s"), (1800, "30 min"), (7800, "2 h 10 min")]
)
def test_a_time_that_is_long_is_told_in_longer_units(seconds: float, words: str) -> None:
    assert duration_in_words(seconds) == words
