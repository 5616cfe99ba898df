"""Sizes are shown in the units that they were written in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpunion.text import size_in_words


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
