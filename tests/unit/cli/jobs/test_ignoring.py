"""Patterns of .gpunionignore behave as people know them from git."""

from __future__ import annotations

import pytest

from gpunion.cli.jobs.ignoring import Ignoring, Why


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
    assert (Ignoring(rules).left_out(path, is_directory=False) is Why.ASKED) is ignored


def test_a_pattern_that_ends_in_a_slash_means_directories_only() -> None:
    rules = Ignoring("cache/")
    assert rules.left_out("cache", is_directory=True) is Why.ASKED
    assert rules.left_out("cache", is_directory=False) is None


def test_what_nobody_wants_is_left_out_unless_asked_for() -> None:
    assert Ignoring().left_out(".git", is_directory=True) is Why.USELESS
    assert Ignoring().left_out("a/__pycache__", is_directory=True) is Why.USELESS
    assert Ignoring("!.venv/").left_out(".venv", is_directory=True) is None


@pytest.mark.parametrize(
    "path",
    [
        ".env", "deploy/.env.production", "keys/id_ed25519", "server.key", ".netrc", "sub/.pypirc",
        "credentials.json", "home/.docker/config.json", ".streamlit/secrets.toml",
    ],
)  # fmt: skip
def test_a_file_that_may_hold_a_secret_stays_behind(path: str) -> None:
    assert Ignoring().left_out(path, is_directory=False) is Why.SECRET


@pytest.mark.parametrize(
    "path", [".env.example", "id_rsa.pub", "environment.yml", "keys.py", "credentials.py"]
)
def test_a_name_that_only_looks_like_a_secret_travels(path: str) -> None:
    assert Ignoring().left_out(path, is_directory=False) is None


def test_a_secret_travels_once_it_is_named_in_the_ignore_file_or_by_a_flag() -> None:
    assert Ignoring("!.env\n").left_out(".env", is_directory=False) is None
    assert Ignoring(included=["./deploy/.env"]).left_out("deploy/.env", is_directory=False) is None
    assert Ignoring(included=["deploy/.env"]).left_out(".env", is_directory=False) is Why.SECRET
    folder = Ignoring(included=[".ssh/"])
    assert folder.left_out(".ssh", is_directory=True) is None
    assert folder.left_out(".ssh/id_rsa", is_directory=False) is None
    assert folder.left_out("id_rsa", is_directory=False) is Why.SECRET
