"""Patterns of .gpunionignore behave as people know them from git."""

from __future__ import annotations

import pytest

from gpunion.cli.ignoring import Ignoring


@pytest.mark.parametrize(
    ("rules", "path", "ignored"),
    [
        ("*.bin", "weights.bin", True),
        ("*.bin", "deep/down/weights.bin", True),
        ("/data", "data", True),
        ("/data", "sub/data", False),
        ("runs/*.log", "runs/a.log", True),
        ("runs/*.log", "runs/deep/a.log", False),
        ("runs/**/a.log", "runs/x/y/a.log", True),
        ("runs/**/a.log", "runs/a.log", True),
        ("out?", "out1", True),
        ("out?", "out12", False),
        ("run[0-9]", "run7", True),
        ("run[!0-9]", "run7", False),
        ("run[!0-9]", "runx", True),
        ("*.log\n!keep.log", "keep.log", False),
        ("# comment\n\n", "# comment", False),
        ("[", "[", True),
        ("\\#odd", "#odd", True),
    ],
)
def test_a_pattern_matches_as_in_git(rules: str, path: str, ignored: bool) -> None:
    assert Ignoring(rules).ignores(path, is_directory=False) is ignored


def test_a_pattern_that_ends_in_a_slash_means_directories_only() -> None:
    rules = Ignoring("cache/")
    assert rules.ignores("cache", is_directory=True)
    assert not rules.ignores("cache", is_directory=False)


def test_what_nobody_wants_is_left_out_unless_asked_for() -> None:
    assert Ignoring().ignores(".git", is_directory=True)
    assert Ignoring().ignores("a/__pycache__", is_directory=True)
    assert not Ignoring("!.venv/").ignores(".venv", is_directory=True)
