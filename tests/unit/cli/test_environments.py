"""Environments from an operator's and a guest's terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpunion.cli.exits import NOT_FOUND, OK, USAGE
from tests.unit.cli.campus_double import CampusDouble, Terminal


def test_a_list_is_published_shown_and_removed(
    gpunion: Terminal, campus: CampusDouble, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text("torch==2.4.0\n")
    assert gpunion("environments", "add", "pytorch", "requirements.txt") == OK
    assert "gpunion run --environment pytorch" in gpunion.out
    assert gpunion("environments", "ls") == OK
    assert "nowhere yet" in gpunion.out
    campus.published[0]["installed"] = [{"node": "alpha", "size_bytes": 3 * 10**9}]
    assert gpunion("environments", "ls") == OK
    assert "alpha" in gpunion.out
    assert "GB" in gpunion.out or "GiB" in gpunion.out
    assert gpunion("environments", "rm", "pytorch") == OK


def test_a_list_that_cannot_be_one_is_refused_before_it_is_sent(
    gpunion: Terminal, campus: CampusDouble, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text("torch\n")
    assert gpunion("environments", "add", "pytorch", "requirements.txt") == USAGE
    assert "leaves versions open (torch)" in gpunion.err
    assert gpunion("environments", "add", "pytorch", "absent.txt") == NOT_FOUND
    assert campus.published == []


@pytest.mark.parametrize("in_file", [True, False])
def test_a_job_names_an_environment_of_the_campus(
    gpunion: Terminal, campus: CampusDouble, tmp_path: Path, in_file: bool
) -> None:
    (tmp_path / "gpunion.toml").write_text('command = "true"\ndir = false\nenvironment = "pytorch-2.4"\n')
    words = ("gpunion.toml",) if in_file else ("--no-dir", "--environment", "pytorch-2.4", "--", "true")
    assert gpunion("submit", *words) == OK
    assert campus.submitted[0]["packages"] == "pytorch-2.4"
    assert "lockfile" not in campus.submitted[0]
