"""A program that gives up its GPU between two steps when it is asked, and comes back."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpunion.sdk.job import aside as aside_module
from gpunion.sdk.job import training
from gpunion.sdk.job.aside import StepsAside, memory_in_use
from gpunion.sdk.job.messages import Mailbox
from gpunion.sdk.job.torch_memory import CannotSetAside, NoRoomYet

PATIENCE_S = 30.0


@dataclass
class FakeMemory:
    trouble: str = ""
    slow: bool = False  # it copies until it is told to give up
    full: int = 0  # so many times there is no room yet
    did: list[str] = field(default_factory=list)

    def set_aside(self, wanted: Callable[[], bool]) -> int:
        assert wanted()
        while self.slow:
            if not wanted():
                raise CannotSetAside("it took too long")
        if self.trouble:
            raise CannotSetAside(self.trouble)
        self.did.append("aside")
        return 7

    def bring_back(self) -> None:
        if self.full:
            self.full -= 1
            raise NoRoomYet("owner's program is still there")
        self.did.append("back")


@dataclass
class Asked:
    """An agent's side of the control directory, beside a program that is between two steps."""

    control_dir: Path
    memory: FakeMemory

    def __post_init__(self) -> None:
        self.mailbox = Mailbox()
        self.steps = StepsAside(self.mailbox, lambda: self.memory)

    def ask(self, request_id: str) -> None:
        fresh = self.control_dir / ".aside"
        fresh.write_text(json.dumps({"id": request_id, "deadline": 0.0}))
        fresh.rename(self.control_dir / "aside.json")

    def said(self) -> dict[str, object]:
        path = self.control_dir / "stepped-aside.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def while_it_waits(self, act: Callable[[], None]) -> None:
        beside = threading.Thread(target=act, daemon=True)
        beside.start()
        self.steps.between_steps()
        beside.join(PATIENCE_S)
        assert not beside.is_alive()

    def until_done(self, request_id: str) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while self.said().get("id") != request_id or not self.said().get("done"):
            assert time.monotonic() < until_s
            time.sleep(0.002)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    monkeypatch.setenv("GPUNION_CONTROL_DIR", str(tmp_path))
    monkeypatch.setattr(aside_module, "LOOK_S", 0.002)
    monkeypatch.setattr(aside_module, "ROOM_LOOK_S", 0.002)
    return Asked(control_dir=tmp_path, memory=FakeMemory())


def test_nobody_asks_and_nothing_happens(asked: Asked) -> None:
    asked.steps.between_steps()
    asked.mailbox.tell_progress(1, 10)
    assert asked.memory.did == []
    assert json.loads((asked.control_dir / "progress.json").read_text())["steps_aside"] is True


def test_it_waits_without_its_gpu_until_the_question_is_gone(asked: Asked) -> None:
    asked.ask("one")

    def agent() -> None:
        asked.until_done("one")
        assert asked.memory.did == ["aside"]
        assert asked.said()["moved_bytes"] == 7
        (asked.control_dir / "aside.json").unlink()

    asked.while_it_waits(agent)
    assert asked.memory.did == ["aside", "back"]
    assert asked.said() == {}


def test_asked_again_by_another_agent_it_answers_that_one_and_moves_nothing_twice(asked: Asked) -> None:
    asked.ask("one")

    def agents() -> None:
        asked.until_done("one")
        asked.ask("two")
        asked.until_done("two")
        (asked.control_dir / "aside.json").unlink()

    asked.while_it_waits(agents)
    assert asked.memory.did == ["aside", "back"]


def test_a_gpu_that_is_still_full_is_waited_for(asked: Asked) -> None:
    asked.memory.full = 3
    asked.ask("one")

    def agent() -> None:
        asked.until_done("one")
        (asked.control_dir / "aside.json").unlink()

    asked.while_it_waits(agent)
    assert asked.memory.did == ["aside", "back"]


def test_what_cannot_be_set_aside_is_told_once_and_the_program_goes_on(asked: Asked) -> None:
    asked.memory.trouble = "it uses CUDA graphs"
    asked.ask("one")
    asked.steps.between_steps()
    assert asked.said()["trouble"] == "it uses CUDA graphs"
    (asked.control_dir / "stepped-aside.json").unlink()
    asked.mailbox._asked_aside = True  # as its signal does
    asked.steps.between_steps()
    assert asked.said() == {}


def test_a_question_that_is_taken_back_ends_a_copy_that_takes_long(asked: Asked) -> None:
    asked.memory.slow = True
    asked.ask("one")

    def agent() -> None:
        while asked.said().get("id") != "one":
            time.sleep(0.002)
        (asked.control_dir / "aside.json").unlink()

    asked.while_it_waits(agent)
    assert asked.said()["trouble"] == "it took too long"
    assert asked.memory.did == []


def test_a_program_that_is_told_to_end_hears_of_it_when_its_memory_is_back(asked: Asked) -> None:
    heard: list[list[str]] = []
    asked.ask("one")
    before = signal.signal(signal.SIGTERM, lambda signum, frame: heard.append(list(asked.memory.did)))

    def agent() -> None:
        asked.until_done("one")
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.05)
        (asked.control_dir / "aside.json").unlink()

    try:
        asked.while_it_waits(agent)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [["aside", "back"]]


def test_a_copy_that_is_still_being_written_is_left_on_the_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, checkpoint = tmp_path / "control", tmp_path / "checkpoint"
    control.mkdir()
    checkpoint.mkdir()
    monkeypatch.setenv("GPUNION_CONTROL_DIR", str(control))
    monkeypatch.setenv("GPUNION_CHECKPOINT_DIR", str(checkpoint))
    memory, written = FakeMemory(trouble="never mind"), threading.Event()

    def seen() -> bool:
        return (control / "stepped-aside.json").exists()

    run = training.Training(total_steps=4, load=lambda d: None, snapshot=lambda: lambda d: written.wait(30))
    assert run._aside is not None
    run._aside._memory = lambda: memory
    found = []
    for step in run.steps():
        found.append(seen())
        run._mailbox._asked = run._mailbox._asked_aside = True  # as the signal does
        if step == 0:
            (control / "request.json").write_text(json.dumps({"id": "save", "final": False}))
        if step == 1:
            (control / "aside.json").write_text(json.dumps({"id": "one"}))
        if step == 2:
            written.set()
            assert run._writing is not None
            run._writing.join()
    assert found == [False, False, False, True]


def test_without_pytorch_there_is_nothing_to_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert memory_in_use() is None
