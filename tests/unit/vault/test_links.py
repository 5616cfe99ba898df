"""A directory's links, each harmless by its name, must not lead out of it through one another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpunion.agent.checkpoints.job_directory import move_in
from gpunion.vault.manifest import BadManifest
from gpunion.vault.transfer.download import restore_tree
from gpunion.vault.tree import LINK_STEPS_MAX, BadTree, check_links
from tests.trees import a_tree

LEADS_OUT = [
    {"a": "x/y", "x/y/up": "../..", "l": "a/up/.."},
    {"x/y/a": "../..", "checkpoint": "x/y/a/../.."},
    {"d/a": "..", "d/b": "a/..", "d/c": "b"},
    {"a": ".", "l": "a/b/../.."},
]


@pytest.mark.parametrize("links", LEADS_OUT)
def test_links_that_lead_out_together_are_refused(links: dict[str, str]) -> None:
    with pytest.raises(BadTree, match="leads outside"):
        check_links(links)


def test_links_that_stay_inside_are_fine() -> None:
    check_links({"lib64": "lib", "bin/python": "python3", "bin/python3": "../opt/x/../py/bin/python3"})
    check_links({"a/b/l": "../../c/d/../e", "c/d": "../a/b"})


def test_links_that_go_round_lead_nowhere_and_are_no_danger() -> None:
    check_links({"a": "b", "b": "a", "c": "c/../c/.."})


def test_a_list_that_takes_hours_to_follow_is_refused_in_seconds() -> None:
    long = "x/../" * 800 + "x"
    links = {f"l{number}": long for number in range(LINK_STEPS_MAX // 1000)}
    with pytest.raises(BadTree, match="too many"):
        check_links(links)


@pytest.mark.parametrize("links", LEADS_OUT)
def test_nothing_is_restored_of_a_directory_whose_links_lead_out(
    tmp_path: Path, links: dict[str, str]
) -> None:
    tree = a_tree({"f": b"x"}, links)
    with pytest.raises(BadManifest, match="leads outside"):
        restore_tree(tree.blocks.__getitem__, tree.files, tmp_path / "made", workers=1)
    assert os.listdir(tmp_path) == []


def test_a_part_of_a_checkpoint_that_is_a_link_gives_a_guest_nothing(tmp_path: Path) -> None:
    for name in ("owners", "landing", "guests"):
        (tmp_path / name).mkdir()
    (tmp_path / "owners" / "thesis").write_text("mine")
    (tmp_path / "landing" / "checkpoint").symlink_to(tmp_path / "owners")
    move_in(tmp_path / "landing" / "checkpoint", tmp_path / "guests")
    assert (tmp_path / "owners" / "thesis").read_text() == "mine"
    assert os.listdir(tmp_path / "guests") == []
