"""How an agent's log is written: for whoever reads it."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator

import pytest
import structlog

from gpunion.agent.decision_log import configure_logs


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
    configure_logs(asked)
    structlog.get_logger().info("decision", on="StartRun", reasons=[], told="for comparing two logs")
    if text:
        assert "on=StartRun" in written.getvalue()
        assert "for comparing" not in written.getvalue()
        assert "reasons" not in written.getvalue()
    else:
        assert json.loads(written.getvalue())["told"] == "for comparing two logs"
