"""A program whose job runs in windows: what it tells of its steps, and when it ends its piece by itself."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpunion
from gpunion.sdk.job import piece as pieces
from gpunion.sdk.job import training
from gpunion.sdk.job.messages import OURSELVES, Mailbox
from gpunion.sdk.job.piece import Piece, StepTimes, is_out_of_memory

UNIX_S = 1_700_000_000.0


@dataclass
class Clock:
    """Stands for the module `time`."""

    CLOCK_BOOTTIME = 7
    now_s: float = 100.0
    jumped_s: float = 0.0  # the wall clock alone

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return UNIX_S + self.now_s + self.jumped_s

    def clock_gettime(self, which: int) -> float:
        return 1e9  # long after any process began


@dataclass
class Guest:
    control_dir: Path
    checkpoint_dir: Path
    clock: Clock
    total: int = 0
    done: list[int] = field(default_factory=list)

    def window(self, in_s: float, save_s: float = 0.0) -> None:
        """As the agent writes it: under another name, and renamed."""
        fresh = self.control_dir / ".window"
        fresh.write_text(json.dumps({"ends": self.clock.time() + in_s, "hard": True, "save_s": save_s}))
        fresh.rename(self.control_dir / "window.json")

    def said(self, name: str) -> dict[str, Any]:
        return dict(json.loads((self.control_dir / name).read_text()))

    def piece(self) -> Piece:
        return Piece(Mailbox())

    def steps(self, piece: Piece, took_s: list[float], first: int = 0) -> None:
        for step, each_s in enumerate(took_s, first):
            piece.goes_on(step)
            self.clock.now_s += each_s
            piece.done(step + 1)

    def train(self, total_steps: int, step_s: float = 1.0, **more: Any) -> None:
        saving = {"save": self.save, "load": self.load, **more}
        for step in training.Training(total_steps=total_steps, **saving).steps():
            self.total += step
            self.done.append(step)
            self.clock.now_s += step_s

    def save(self, directory: Path) -> None:
        (directory / "total").write_text(str(self.total))

    def load(self, directory: Path) -> None:
        self.total = int((directory / "total").read_text())


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guest:
    found = Guest(control_dir=tmp_path / "control", checkpoint_dir=tmp_path / "checkpoint", clock=Clock())
    found.control_dir.mkdir()
    found.checkpoint_dir.mkdir()
    for name, value in (
        ("GPUNION_CONTROL_DIR", str(found.control_dir)),
        ("GPUNION_CHECKPOINT_DIR", str(found.checkpoint_dir)),
        ("GPUNION_RESUME", "0"),
        ("GPUNION_WINDOWS", "1"),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(pieces, "time", found.clock)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    return found


# --- what is told ----------------------------------------------------------------------------------


def test_steps_are_timed_after_the_first_three_and_told(guest: Guest) -> None:
    piece = guest.piece()
    guest.steps(piece, [9.0, 2.0, 2.0, 1.0, 3.0, 2.0])
    piece.tell()
    said = guest.said("piece.json")
    assert (said["steps"], said["step_s"], said["worst_step_s"]) == (3, pytest.approx(2.0), 3.0)
    assert said["step_sd_s"] == pytest.approx((2 / 3) ** 0.5)
    assert (said["peak_bytes"], said["short_of_memory"]) == (0, False)


def test_what_the_first_steps_took_longer_than_others_is_coming_up(guest: Guest) -> None:
    piece = guest.piece()
    guest.steps(piece, [30.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    piece.tell()
    came_up_s = piece._came_up_s
    assert came_up_s is not None
    assert guest.said("piece.json")["begin_s"] == pytest.approx(came_up_s + 29.0)


def test_a_job_that_runs_in_no_windows_tells_nothing(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUNION_WINDOWS")
    guest.window(1.0)
    guest.train(10)
    assert guest.done == list(range(10))
    assert not (guest.control_dir / "piece.json").exists()


def test_standing_still_is_no_part_of_a_step(guest: Guest) -> None:
    piece = guest.piece()
    guest.steps(piece, [1.0] * 5)
    piece.goes_on(5)
    with piece.standing_still():
        guest.clock.now_s += 500.0
    guest.clock.now_s += 1.0
    piece.done(6)
    assert piece.times.mean_s == pytest.approx(1.0)


def test_a_step_in_which_the_program_was_frozen_does_not_count_but_as_the_longest(guest: Guest) -> None:
    piece = guest.piece()
    guest.steps(piece, [0.1] * 20 + [3600.0] + [0.1] * 20)
    assert piece.times.mean_s == pytest.approx(0.1)
    assert piece.times.worst_s == pytest.approx(3600.0)


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=60))
def test_mean_and_deviation_are_those_of_all_steps(took_s: list[float]) -> None:
    times = StepTimes()
    for each_s in took_s:
        times.add(each_s)
    if times.steps == len(took_s):  # else one of them stood still
        mean_s = sum(took_s) / len(took_s)
        squares = sum((each_s - mean_s) ** 2 for each_s in took_s) / len(took_s)
        assert times.mean_s == pytest.approx(mean_s, rel=1e-6)
        assert times.deviation_s**2 == pytest.approx(squares, rel=1e-5, abs=1e-9 * mean_s**2)


@pytest.mark.parametrize("timed", [8, 60])
def test_the_next_steps_take_longer_than_foretold_once_in_twenty(timed: int) -> None:
    drawn, late, tries = random.Random(1), 0, 2000
    for _ in range(tries):
        times = StepTimes()
        for _ in range(timed):
            times.add(drawn.lognormvariate(0.0, 0.3))
        late += sum(drawn.lognormvariate(0.0, 0.3) for _ in range(5)) > times.next_s(5)
    assert late / tries <= 0.05 + 3 * (0.05 * 0.95 / tries) ** 0.5


# --- when it ends ----------------------------------------------------------------------------------


def test_it_saves_itself_and_ends_before_its_window_does(guest: Guest) -> None:
    guest.window(20.0, save_s=3.0)
    ends_s = guest.clock.now_s + 20.0
    with pytest.raises(SystemExit) as end:
        guest.train(1000)
    assert end.value.code == 85
    saved_at = len(guest.done)
    assert guest.clock.now_s <= ends_s - 3.0 - pieces.AHEAD_S < guest.clock.now_s + 1.5
    assert guest.said("progress.json")["step"] == saved_at
    assert (guest.checkpoint_dir / f"step-{saved_at}" / "total").read_text() == str(sum(guest.done))
    assert not (guest.control_dir / "saved.json").exists()


def test_a_resumed_piece_ends_where_an_uninterrupted_run_does(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(20):
        guest.window(10.0)
        try:
            guest.train(60)
            break
        except SystemExit:
            monkeypatch.setenv("GPUNION_RESUME", "1")
            guest.total = -1  # what is not loaded is gone
    assert guest.done == list(range(60))
    assert guest.total == sum(range(60))


@pytest.mark.parametrize("safe_every", [4, 7])
def test_it_ends_at_a_safe_point_only(guest: Guest, safe_every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUNION_SAFE_EVERY", str(safe_every))
    guest.window(31.5)
    with pytest.raises(SystemExit):
        guest.train(1000)
    assert len(guest.done) % safe_every == 0
    assert guest.clock.now_s + safe_every > 100.0 + 31.5 - pieces.AHEAD_S >= guest.clock.now_s


def test_several_processes_ask_each_other_at_their_own_steps(guest: Guest) -> None:
    ranks = SimpleNamespace(rank=0, count=2, every=10, agree=lambda word: word)
    piece = guest.piece()
    guest.window(5.0)
    guest.steps(piece, [1.0] * 20)
    assert piece.request(15, ranks.every) is None
    assert piece.request(20, ranks.every) == OURSELVES


def test_it_makes_a_step_before_it_ends_by_itself(guest: Guest) -> None:
    guest.window(0.5)
    with pytest.raises(SystemExit):
        guest.train(1000)
    assert guest.done == [0]


def test_an_end_that_is_put_off_or_lifted_holds_no_more(guest: Guest) -> None:
    piece = guest.piece()
    guest.window(10.0)
    guest.steps(piece, [1.0] * 9)
    assert piece.request(9) == OURSELVES
    guest.window(500.0)
    guest.clock.now_s += pieces.LOOK_S
    assert piece.request(9) is None
    (guest.control_dir / "window.json").unlink()
    guest.clock.now_s += 1000.0
    assert piece.request(9) is None


def test_a_wall_clock_that_is_set_moves_no_end(guest: Guest) -> None:
    piece = guest.piece()
    guest.window(60.0)
    guest.steps(piece, [1.0] * 9)
    assert piece.request(9) is None
    guest.clock.jumped_s = 3600.0
    guest.clock.now_s += pieces.LOOK_S
    assert piece.request(9) is None


@pytest.mark.parametrize("said", ["[]", "{", '{"ends": NaN}', '{"ends": "soon"}', '{"ends": true}', ""])
def test_a_window_that_nobody_understands_is_none(guest: Guest, said: str) -> None:
    (guest.control_dir / "window.json").write_text(said)
    guest.train(10)
    assert guest.done == list(range(10))


def test_a_save_that_fails_is_tried_again_later_and_the_work_goes_on(guest: Guest) -> None:
    guest.window(8.0)
    tried: list[float] = []

    def save(directory: Path) -> None:
        tried.append(guest.clock.now_s)
        if len(tried) < 3:
            raise OSError(28, "No space left on device")
        guest.save(directory)

    with pytest.raises(SystemExit):
        guest.train(1000, 0.25, save=save)
    assert len(tried) == 3
    assert tried[1] - tried[0] >= pieces.TRY_AGAIN_S
    assert tried[2] - tried[1] >= 2 * pieces.TRY_AGAIN_S
    assert guest.said("progress.json")["step"] == len(guest.done)
    assert guest.said("piece.json")["save_s"] is None or guest.said("piece.json")["save_s"] >= 0.0


def test_a_request_of_the_agent_goes_first(guest: Guest) -> None:
    request = {"id": "c1", "deadline": None, "reason": "leaving", "final": True}
    (guest.control_dir / "request.json").write_text(json.dumps(request))
    guest.window(0.0)
    with pytest.raises(SystemExit):
        guest.train(10)
    assert guest.said("saved.json")["id"] == "c1"


# --- memory ----------------------------------------------------------------------------------------


class Card:
    """As much of torch.cuda as is asked."""

    def __init__(self, total_bytes: int = 1000 * 1024**2, *, begun: bool = True) -> None:
        self.total_bytes, self.begun = total_bytes, begun
        self.peak_bytes, self.fractions = 0, dict[int, float]()

    def is_initialized(self) -> bool:
        return self.begun

    def device_count(self) -> int:
        return 1

    def get_device_properties(self, number: int) -> Any:
        return SimpleNamespace(total_memory=self.total_bytes)

    def set_per_process_memory_fraction(self, fraction: float, number: int) -> None:
        self.fractions[number] = fraction

    def max_memory_reserved(self, number: int) -> int:
        return self.peak_bytes


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    found, torch = Card(), ModuleType("torch")
    torch.cuda = found  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    return found


def test_what_pytorch_held_of_a_gpu_is_told(guest: Guest, card: Card) -> None:
    piece = guest.piece()
    card.peak_bytes = 12345
    guest.steps(piece, [1.0] * 4)
    assert guest.said("piece.json")["peak_bytes"] == 12345


def test_who_was_granted_less_than_it_asked_for_takes_no_more(
    guest: Guest, card: Card, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUNION_GPU_MEMORY_BYTES", str(400 * 1024**2))
    card.begun = False
    piece = guest.piece()
    assert card.fractions == {}  # the program has not begun to use it
    card.begun = True
    guest.steps(piece, [1.0])
    assert card.fractions == {0: pytest.approx(0.3)}  # a quarter of it is the driver's own


def test_who_was_granted_what_it_asked_for_is_not_held_back(guest: Guest, card: Card) -> None:
    guest.steps(guest.piece(), [1.0] * 4)
    assert card.fractions == {}


class OutOfMemoryError(RuntimeError):
    __module__ = "torch"


def test_it_is_told_by_what_pytorch_raises_or_by_what_that_caused() -> None:
    assert is_out_of_memory(OutOfMemoryError("CUDA out of memory"))
    assert is_out_of_memory(RuntimeError("CUDA error: out of memory"))
    wrapped = ValueError("the trainer gave up")
    wrapped.__cause__ = OutOfMemoryError()
    assert is_out_of_memory(wrapped)
    assert not is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("out of memory"))
    assert not is_out_of_memory(None)


ENDS = """
import sys
from gpunion.sdk.job import training
class OutOfMemoryError(RuntimeError):
    __module__ = "torch"
for step in training.Training(total_steps=9, save=print, load=print).steps():
    if step == 5:
        raise {trouble}("CUDA out of memory. Tried to allocate 20.00 GiB")
"""


@pytest.mark.parametrize(("trouble", "short"), [("OutOfMemoryError", True), ("ValueError", False)])
def test_a_program_that_ends_for_want_of_memory_says_so(guest: Guest, trouble: str, short: bool) -> None:
    source = str(Path(gpunion.__file__).parents[1])
    ended = subprocess.run(
        [sys.executable, "-c", ENDS.format(trouble=trouble)],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1
    assert "Tried to allocate" in ended.stderr
    said = guest.control_dir / "piece.json"
    assert (said.exists() and guest.said("piece.json")["short_of_memory"]) == short
