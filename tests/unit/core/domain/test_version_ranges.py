"""Ranges of versions: compared part by part, and refused in words."""

from __future__ import annotations

import pytest

from gpunion.domain.version_ranges import BadRange, checked_range, distance, is_within


@pytest.mark.parametrize(
    ("version", "asked", "within"),
    [
        ("8.6", ">=8.0", True),
        ("8.0", ">=8", True),
        ("8", "==8.0", True),
        ("7.5", ">=8.0", False),
        ("12.10", ">=12.4", True),
        ("12.10", "<12.4", False),
        ("8.9", ">=8.0,<9.0", True),
        ("9.0", ">=8.0,<9.0", False),
        ("8.6", "!=8.6", False),
        ("8.6", ">8.0,<=8.6", True),
        ("", ">=0", False),
        ("not known", "!=1", False),
    ],
)
def test_a_version_is_compared_part_by_part(version: str, asked: str, within: bool) -> None:
    assert is_within(version, asked) is within


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("ampere", "has no number such as 8.0"),
        (">=", "has no number such as 8.0"),
        (">=8.0,", "has no number such as 8.0"),
        (">=8.x", "has no number such as 8.0"),
        (">=\u0668", "has no number such as 8.0"),
        ("8.0", "'>=8.0' for at least that, '==8.0' for no other"),
        (">=8.0,<9,<9,<9,<9", "is too long"),
    ],
)
def test_what_is_no_range_is_refused_with_how_to_write_one(asked: str, said: str) -> None:
    with pytest.raises(BadRange, match=said.replace("?", "[?]")):
        checked_range(asked, ">=8.0")


def test_blanks_in_a_range_say_nothing() -> None:
    assert checked_range(" >= 8.0 , < 9 ", ">=8.0") == ">=8.0,<9"


def test_the_nearer_version_is_the_shorter_distance_away() -> None:
    assert distance("8.9", ">=9.0") < distance("8.6", ">=9.0") < distance("", ">=9.0")
