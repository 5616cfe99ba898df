"""How an agent's log is written: for whoever reads it."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from gpunion.log_lines import configure, goes_to_journal


class Stream(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.mark.parametrize(
    ("terminal", "asked", "text"),
    [(True, None, True), (False, None, False), (True, "json", False), (False, "text", True)],
)
def test_people_at_a_terminal_read_text_and_programs_json_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, asked: str | None, text: bool
) -> None:
    written = Stream(terminal=terminal)
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setenv("NO_COLOR", "1")
    configure(asked)
    structlog.get_logger().info("decision", on="StartRun", reasons=[], told="for comparing two logs")
    if text:
        assert "on=StartRun" in written.getvalue()
        assert "for comparing" not in written.getvalue()
        assert "reasons" not in written.getvalue()
    else:
        assert json.loads(written.getvalue())["told"] == "for comparing two logs"


def test_the_journal_gets_lines_for_people_with_its_own_time_and_its_own_word_for_how_bad_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with open(tmp_path / "journal", "w+", encoding="utf-8") as journal:
        where = os.fstat(journal.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{where.st_dev}:{where.st_ino}")
        monkeypatch.setattr(sys, "stderr", journal)
        configure(None)
        structlog.get_logger().warning("disk_low", left="3 GiB")
        structlog.get_logger().info("agent_started")
        journal.flush()
        journal.seek(0)
        lines = journal.read().splitlines()
    assert [line.split("[")[0] for line in lines] == ["<4>", "<6>"]
    assert "left='3 GiB'" in lines[0]


def test_what_was_turned_elsewhere_does_not_go_to_the_journal(tmp_path: Path) -> None:
    with open(tmp_path / "one", "w") as one, open(tmp_path / "other", "w") as other:
        where = os.fstat(one.fileno())
        said = {"JOURNAL_STREAM": f"{where.st_dev}:{where.st_ino}"}
        assert goes_to_journal(one, said)
        assert not goes_to_journal(other, said)
        assert not goes_to_journal(one, {})
    assert not goes_to_journal(one, said)
    assert not goes_to_journal(io.StringIO(), said)
