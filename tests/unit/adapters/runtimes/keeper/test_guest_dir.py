"""What a guest leaves behind goes, whatever it made of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gpunion.adapters.runtimes.keeper.guest_dir import delete_tree


def test_directories_nested_without_end_are_deleted(tmp_path: Path) -> None:
    """Who could not delete them could not start again either: leftovers are deleted first."""
    root, outside, name = tmp_path / "guest", tmp_path / "outside", "d" * 255
    root.mkdir()
    outside.mkdir()
    (outside / "kept").touch()
    folder = os.open(root, os.O_RDONLY)
    for _ in range(sys.getrecursionlimit() + 100):
        os.symlink(outside, "link", dir_fd=folder)
        os.mkdir(name, dir_fd=folder)
        inner = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    delete_tree(root)
    assert not root.exists()
    assert (outside / "kept").exists()
