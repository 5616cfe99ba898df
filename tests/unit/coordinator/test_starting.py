"""A coordinator that cannot start says why, and what to do; and how its log looks."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from gpunion.coordinator.main import how_to_make_room, in_colour, why_not


def test_a_folder_that_cannot_be_made_is_told_with_how_to_name_another(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(OSError, match="Not a directory") as error:
        (tmp_path / "home" / "data").mkdir()
    why, next_step = why_not(error.value, tmp_path / "home" / "data").split("; ")
    assert why == f"{tmp_path}/home/data: Not a directory"
    assert next_step == "name a folder that you may write: gpunion coordinator --data FOLDER"


def test_a_full_disk_is_not_told_as_if_another_folder_would_help(tmp_path: Path) -> None:
    assert why_not(OSError(5, "Input/output error"), tmp_path) == f"{tmp_path}: Input/output error"
    full = f"{tmp_path}: No space left on device; make room where it keeps its data: df -h {tmp_path}"
    assert why_not(OSError(28, "No space left on device"), tmp_path) == full
    assert "make room" in how_to_make_room("cannot commit: database or disk is full", tmp_path)


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_whose_people_want_it() -> None:
    assert in_colour(FakeTerminal(), {})
    assert not in_colour(FakeTerminal(), {"NO_COLOR": "1"})
    assert not in_colour(io.StringIO(), {})
