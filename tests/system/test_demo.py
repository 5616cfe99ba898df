"""The demo, as a stranger runs it: its figures, and what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real_machine import command_lines

pytestmark = [pytest.mark.xdist_group("demo"), pytest.mark.timeout(300)]
PLAYED = ["owner_reclaim", "node_lost", "homecoming"]
# On a machine so busy that the play's lease of two seconds runs out, there are more moves than were played.
BUSY = {"lease_ended", "self_saved"}


def _processes_under(folder: Path) -> list[str]:
    shown = (line.replace(b"\0", b" ").decode(errors="replace") for line in command_lines().values())
    return [command for command in shown if str(folder) in command]


def test_the_demo_moves_a_job_three_times_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpunion", "demo", "--json"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["moves"] >= len(PLAYED)
    if BUSY.isdisjoint(outcome["causes"]):
        assert outcome["causes"] == PLAYED
    else:
        assert set(outcome["causes"]) <= BUSY.union(PLAYED)
    assert outcome["steps_lost_on_notice"] == 0
    assert outcome["weights_equal"] is True
    assert len(outcome["downtime_s"]) == outcome["moves"]
    assert list(tmp_path.iterdir()) == []
    assert _processes_under(tmp_path) == []


def test_a_demo_that_is_interrupted_leaves_nothing_behind(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-u", "-m", "gpunion", "demo"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert demo.stdout is not None
    for line in demo.stdout:
        if "is durable" in line:
            break
    demo.send_signal(signal.SIGINT)
    demo.communicate(timeout=120)
    assert demo.returncode == 130
    assert list(tmp_path.iterdir()) == []
    assert _processes_under(tmp_path) == []
