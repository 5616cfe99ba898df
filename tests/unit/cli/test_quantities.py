"""Durations and sizes, as typed and as shown."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from gpunion.cli.quantities import (
    count,
    duration_s,
    positive_count,
    positive_duration_s,
    positive_number,
    shown_duration,
    shown_indices,
    shown_reached,
    shown_size,
    size_bytes,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10), ("5m", 300), ("2h", 7200), ("1h30m", 5400), ("90", 90), ("250ms", 0.25), ("1.5h", 5400)],
)
def test_a_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "10 minutes", "-5s", "5x", "9999d", "1e3"])
def test_what_is_no_duration_is_refused_in_words(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=r"not a duration|longer than a year"):
        duration_s(text)


def test_nothing_is_not_a_positive_duration() -> None:
    with pytest.raises(ArgumentTypeError, match="more than nothing"):
        positive_duration_s("0s")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("20GB", 20 * 10**9),
        ("512MiB", 512 * 2**20),
        ("1.5 GiB", 3 * 2**29),
        ("4194304", 2**22),
        ("1kb", 1000),
    ],
)
def test_a_size_is_read_in_bytes(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "much", "20", "20GBs", "-1GB", "10ZB", "999999TB"])
def test_what_is_no_size_is_refused_in_words(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=r"not a size|has no unit|more than any machine has"):
        size_bytes(text)


def test_counts_are_whole_and_not_negative() -> None:
    assert (count("0"), positive_count("3"), positive_number("0.5")) == (0, 3, 0.5)
    for read, text in ((count, "-1"), (count, "1.5"), (positive_count, "0"), (positive_number, "nan")):
        with pytest.raises(ArgumentTypeError):
            read(text)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.25, "0.2 s"),
        (5, "5 s"),
        (59.6, "1 min"),
        (303, "5 min 3 s"),
        (7800, "2 h 10 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_a_duration_is_shown_in_two_units_at_most(seconds: float, shown: str) -> None:
    assert shown_duration(seconds) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 bytes"), (80 * 10**9, "80 GB"), (1536, "1.5 KiB"), (2**40, "1 TiB"), (2**51, "2048 TiB")],
)
def test_a_size_is_shown_in_the_unit_that_suits_it(size: int, shown: str) -> None:
    assert shown_size(size) == shown


@pytest.mark.parametrize(
    ("progress", "step", "shown"),
    [(0.25, 5, "25% (step 5)"), (0.0, 16, "step 16"), (0.0, 0, "0%"), (1.0, 0, "100%")],
)
def test_who_does_not_say_how_much_there_is_to_do_has_steps_and_no_share(
    progress: float, step: int, shown: str
) -> None:
    assert shown_reached(progress, step) == shown


@pytest.mark.parametrize(("indices", "shown"), [([], "-"), ([0], "GPU 0"), ([0, 1], "GPUs 0, 1")])
def test_the_first_gpu_does_not_read_as_no_gpu(indices: list[int], shown: str) -> None:
    assert shown_indices(indices) == shown
