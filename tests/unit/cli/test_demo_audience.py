"""What the demo's audience sees, on a terminal and in a file."""

from __future__ import annotations

import io

import pytest

from gpunion.cli.demo.audience import Audience
from gpunion.cli.demo.epilogue import Move, Outcome

LONG = "job job-01m7j3rda5brqch3w96k39h4vd submitted; an uninterrupted run of the same seed is the yardstick"
JOB = {"live": {"step": 250, "progress": 0.5}, "node_id": "a-machine-with-a-long-name", "phase": "running"}


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_sentence_longer_than_the_terminal_is_folded_beside_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = FakeTerminal()
    Audience(out).tell(LONG)
    first, second = out.getvalue().splitlines()
    assert len(first) <= 80
    assert second.startswith(" " * 10)
    assert f"{first[10:]} {second[10:]}" == LONG


def test_a_file_gets_each_sentence_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = io.StringIO()
    Audience(out).tell(LONG)
    assert out.getvalue().endswith(f" s  {LONG}\n")
    assert out.getvalue().count("\n") == 1


def test_the_progress_stays_in_one_line_of_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    out = FakeTerminal()
    audience = Audience(out)
    audience.progress(JOB)
    assert "step 250" in out.getvalue()
    assert len(out.getvalue()) < 50


def a_move(cause: str, steps_redone: int) -> Move:
    return Move(
        cause=cause, source="a", destination="b", downtime_s=1.0, steps_redone=steps_redone, shipped_bytes=1
    )


@pytest.mark.parametrize(
    ("cause", "lost"), [("owner_reclaim", 5), ("homecoming", 5), ("node_lost", 0), ("lease_ended", 0)]
)
def test_only_steps_that_somebody_announced_count_as_lost_on_notice(cause: str, lost: int) -> None:
    outcome = Outcome(moves=(a_move(cause, 5),), weights_equal=True, weights_sha256="", elapsed_s=1.0)
    assert outcome.steps_lost_on_notice == lost
    assert outcome.good == (lost == 0)


@pytest.mark.parametrize("terminal", [True, False])
def test_of_a_machine_that_died_no_progress_is_told_whatever_the_coordinator_believes(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    out = FakeTerminal() if terminal else io.StringIO()
    audience = Audience(out)
    audience.died("beta")
    job = {"live": {"progress": 0.5, "step": 7}, "node_id": "beta", "phase": "running"}
    audience.progress(job)
    assert "on beta" not in out.getvalue()
    audience.progress(job | {"node_id": "gamma"})
    assert "step 7 (50%) on gamma" in out.getvalue()
