"""Where guests' cgroups are made by an agent of root's that shares its own with others: at the top.

The tree is one of plain folders, as systemd before 254 shows it: the kernel's own files are not needed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpunion.adapters.runtimes.keeper import cgroups


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "cgroup.procs").touch()
    (tmp_path / "unit").mkdir()

    def controllers(parent: str) -> frozenset[str]:
        shared = os.path.basename(parent) == "unit"  # it has processes of its own
        return frozenset() if shared or not os.path.isdir(parent) else frozenset({"memory", "cpu", "pids"})

    monkeypatch.setattr(cgroups, "MOUNTS", (str(tmp_path),))
    monkeypatch.setattr(cgroups, "_own_path", lambda: "/unit")
    monkeypatch.setattr(cgroups, "controllers", controllers)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def test_whoever_looks_where_guests_could_be_leaves_nothing_and_a_guest_makes_the_place_again(
    tree: Path,
) -> None:
    parent, limited = cgroups.survey()
    assert parent == str(tree / "gpunion")
    assert limited == {"memory", "cpu", "pids"}
    assert not (tree / "gpunion").exists()
    guest = cgroups.make(parent, "guest")
    assert guest == str(tree / "gpunion" / "guest")
    assert cgroups.survey() == (parent, limited)
    assert Path(guest).is_dir()  # another one who looks takes nothing along that is used


def test_a_place_that_goes_away_in_the_very_moment_is_made_again(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir
    gone: list[str] = []

    def taken_along_once(path: str) -> None:
        mkdir(path)
        if path == str(tree / "gpunion") and not gone:
            gone.append(path)
            os.rmdir(path)

    monkeypatch.setattr(os, "mkdir", taken_along_once)
    assert cgroups.make(str(tree / "gpunion"), "guest")
    assert gone


def test_elsewhere_nothing_is_made_that_was_not_asked_for(tree: Path) -> None:
    assert cgroups.make(str(tree / "nowhere"), "guest") == ""
    assert not (tree / "nowhere").exists()
