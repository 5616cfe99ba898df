"""A coordinator that cannot start says why, and what to do; and how its log looks."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from gpunion.coordinator.main import how_to_find, next_step_at_disk, why_not
from gpunion.log_lines import in_colour


def test_a_folder_that_cannot_be_made_is_told_with_how_to_name_another(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(OSError, match="Not a directory") as error:
        (tmp_path / "home" / "data").mkdir()
    told = why_not(error.value, tmp_path / "home" / "data")
    assert told.why == f"{tmp_path}/home/data: Not a directory"
    assert told.next_step == "name a folder that you may write: gpunion coordinator --data FOLDER"


def test_a_full_disk_is_not_told_as_if_another_folder_would_help(tmp_path: Path) -> None:
    full = f"{tmp_path}: No space left on device; make room where it keeps its data: df -h {tmp_path}"
    assert str(why_not(OSError(28, "No space left on device"), tmp_path)) == full
    assert "make room" in next_step_at_disk("cannot open it: the disk of /srv is full: 0 bytes", tmp_path)


def test_who_has_a_sick_disk_is_sent_to_what_the_system_says_of_it(tmp_path: Path) -> None:
    told = why_not(OSError(5, "Input/output error"), tmp_path)
    assert told.why == f"{tmp_path}: Input/output error"
    assert f"see what the system says of the disk of {tmp_path}" in told.next_step
    assert "dmesg" in next_step_at_disk("cannot open it: disk I/O error (SQLITE_IOERR_READ)", tmp_path)
    assert next_step_at_disk("cannot open it: access permission denied", tmp_path) == ""


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_whose_people_want_it() -> None:
    assert in_colour(FakeTerminal(), {})
    assert not in_colour(FakeTerminal(), {"NO_COLOR": "1"})
    assert not in_colour(io.StringIO(), {})


def test_the_admin_token_is_shown_at_a_terminal_and_never_written_into_a_journal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with open(tmp_path / "journal", "w") as journal:
        where = os.fstat(journal.fileno())
        monkeypatch.setattr(sys, "stdout", journal)
        assert "secret" in how_to_find("secret", tmp_path / "admin.token")
        monkeypatch.setenv("JOURNAL_STREAM", f"{where.st_dev}:{where.st_ino}")
        said = how_to_find("secret", tmp_path / "admin.token")
    assert "secret" not in said
    assert str(tmp_path / "admin.token") in said
