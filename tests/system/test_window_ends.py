"""A window's hard end holds whatever becomes of the agent, a turn whatever becomes of the coordinator."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpunion.agent.owner import client as owner_client
from gpunion.owner_kill.guest import guest_dirs, lives
from tests.system.crashes import crashing
from tests.system.scene import LIMIT_S, PATIENT, Scene
from tests.system.test_agents_killed import LATE_S

# Neither saves nor leaves, whoever asks: nothing but its keeper ends it.
DEAF = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for step in range(10**9):
    now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    print("beat", os.environ["GPUNION_RUN_EPOCH"], now_s, step, flush=True)
    time.sleep(0.01)
"""
# The owner's calendar has the machine so long after it was told; windows end some seconds before.
CALENDAR_S = 25.0
TURNS = {"GPUNION_COORDINATOR_TURN_LEAST_S": "1", "GPUNION_COORDINATOR_TURN_MOST_S": "2"}
MOST_BOUNDARIES = 60


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    opened = Scene.open(tmp_path / "campus", labs=("a",), timing=PATIENT)
    try:
        yield opened
    finally:
        opened.close()


@pytest.mark.xdist_group("window-ends")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("word", [None, signal.SIGKILL, signal.SIGSTOP], ids=["alive", "killed", "stopped"])
def test_a_guest_is_gone_when_its_window_ends_hard(scene: Scene, word: signal.Signals | None) -> None:
    command = ["python", "-c", DEAF]
    job_id = scene.submit(command=command, bundle=None, atomizable=True, every_s=600.0)
    scene.until_beating(job_id)
    _foretell(scene, CALENDAR_S)
    job = scene.until(job_id, "told when it ends", lambda job: job["pieces"]["ends_at"] is not None)
    ends_s = _on_the_machines_clock(job["pieces"]["ends_at"])
    _until_the_guest_was_told(scene)
    if word is not None:
        scene.campus.agent("a").send_signal(word)
    state_dir = str(scene.campus.state_dir("a"))
    while any(map(lives, guest_dirs(state_dir))):
        assert _now_s() <= ends_s + LATE_S, "it outlived its window"
        time.sleep(0.01)
    gone_s = _now_s()
    last_s = max(at_s for _, at_s, _ in scene.beats(job_id))
    late_s, left_s = last_s - ends_s, gone_s - ends_s
    print(f"agent {'alive' if word is None else word.name}: last step {late_s:+.3f} s, gone {left_s:+.3f} s")
    assert last_s > ends_s - LATE_S  # it had all of its window, so nobody but its keeper ended it
    if word is signal.SIGSTOP:
        scene.campus.agent("a").send_signal(signal.SIGCONT)
    if word is signal.SIGKILL:
        scene.campus.start_agent("a")
    scene.until(job_id, "between two windows", lambda job: job["phase"] == "between")
    assert "ended before it was saved" in scene.story(job_id)
    scene.check_audit()


def _foretell(scene: Scene, within_s: float) -> None:
    begins_at = datetime.now(UTC) + timedelta(seconds=within_s)
    lines = (
        *("BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//a//b//", "BEGIN:VEVENT", "UID:1"),
        f"DTSTAMP:{begins_at:%Y%m%dT%H%M%SZ}",
        f"DTSTART:{begins_at:%Y%m%dT%H%M%SZ}",
        f"DTEND:{begins_at + timedelta(hours=1):%Y%m%dT%H%M%SZ}",
        *("SUMMARY:ours", "END:VEVENT", "END:VCALENDAR"),
    )
    path = scene.campus.root / "owner.ics"
    path.write_text("\r\n".join(lines) + "\r\n")
    owner_client.change_terms(scene.campus.state_dir("a"), {"calendar": str(path), "notice": "2s"})


def _until_the_guest_was_told(scene: Scene) -> None:
    """Its keeper is told in the same breath."""
    until_s = time.monotonic() + LIMIT_S
    while True:
        for path in scene.campus.state_dir("a").glob("guests/*/**/window.json"):
            if json.loads(path.read_text()).get("ends") is not None:
                time.sleep(0.5)
                return
        assert time.monotonic() < until_s, "nobody told the guest"
        time.sleep(0.05)


def _now_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _on_the_machines_clock(at: str) -> float:
    return _now_s() + (datetime.fromisoformat(at) - datetime.now(UTC)).total_seconds()


@pytest.mark.xdist_group("turn-before")
@pytest.mark.timeout(600)
def test_a_turn_survives_a_coordinator_that_dies_before_each_commit(tmp_path: Path) -> None:
    assert _every_boundary(tmp_path, "before") >= 8


@pytest.mark.xdist_group("turn-after")
@pytest.mark.timeout(600)
def test_a_turn_survives_a_coordinator_that_dies_after_each_commit(tmp_path: Path) -> None:
    assert _every_boundary(tmp_path, "after") >= 8


def _every_boundary(root: Path, side: str) -> int:
    """One job goes on through all of it; each time another one has a turn in between. Returns how often the
    coordinator died."""
    scene = Scene.open(
        root / "campus", labs=("a",), timing={"lease_s": 12.0}, environments={"coordinator": TURNS}
    )
    scene.campus.environment = {**scene.campus.environment, **TURNS}
    try:
        first = scene.submit(steps=100_000, every_s=600.0, atomizable=True)
        scene.until_beating(first)
        for number in range(1, MOST_BOUNDARIES):
            scene.campus.stop_coordinator()
            with crashing(scene, f"{number}:{side}") as crashed:
                second = scene.submit(steps=8, step_s=0.04, every_s=600.0, atomizable=True)
                job = scene.until_over(second)
                assert job["phase"] == "succeeded", scene.story(second)
                scene.check_trail(second)
                epoch = scene.job(first)["epoch"]
                scene.until_phase(first, "running")
            scene.check_trail(first)
            scene.check_audit()
            if not crashed.is_set():
                assert epoch > number
                return number - 1
        raise AssertionError("a turn never ran out of commits")
    finally:
        scene.close()
