"""The callbacks for trainers, with as much of a trainer as they look at. The real ones: tests/gpu."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gpunion.sdk.job import huggingface, lightning
from gpunion.sdk.job.messages import SAVED_RUN_ME_AGAIN


@dataclass
class Guest:
    checkpoint_dir: Path
    control_dir: Path

    def asks(self, request_id: str, *, final: bool = False) -> None:
        request = {"id": request_id, "deadline": None, "reason": "test", "final": final}
        (self.control_dir / "request.json").write_text(json.dumps(request))

    def said(self, name: str) -> dict[str, Any]:
        return dict(json.loads((self.control_dir / name).read_text()))

    def folders(self) -> list[str]:
        return sorted(path.name for path in self.checkpoint_dir.iterdir())


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guest:
    found = Guest(checkpoint_dir=tmp_path / "checkpoint", control_dir=tmp_path / "control")
    found.checkpoint_dir.mkdir()
    found.control_dir.mkdir()
    monkeypatch.setenv("GPUNION_CHECKPOINT_DIR", str(found.checkpoint_dir))
    monkeypatch.setenv("GPUNION_CONTROL_DIR", str(found.control_dir))
    monkeypatch.setenv("GPUNION_RESUME", "0")
    return found


class TrainerDouble:
    """Saves where a Hugging Face Trainer does."""

    def __init__(self, guest: Guest) -> None:
        self.guest, self.answers = guest, huggingface.TrainerAnswers()

    def step(self, step: int, *, by_strategy: bool = False) -> bool:
        self.answers.stepped(step, alone=False)
        wanted = self.answers.wanted(step, 100)
        self.answers.by_strategy = by_strategy
        if wanted or by_strategy:
            folder = self.guest.checkpoint_dir / f"checkpoint-{step}"
            folder.mkdir(exist_ok=True)
            (folder / "model.safetensors").write_text("weights")
            self.answers.saved(self.guest.checkpoint_dir, step, 100)
        return wanted


def saved_at(trainer: TrainerDouble, step: int, request_id: str, **more: Any) -> None:
    trainer.guest.asks(request_id)
    trainer.answers._mailbox.ask_again_soon()
    assert trainer.step(step, **more)
    assert trainer.guest.said("saved.json")["id"] == request_id


def test_of_the_saves_that_were_asked_for_the_two_newest_stay(guest: Guest) -> None:
    trainer = TrainerDouble(guest)
    for number in range(1, 5):
        saved_at(trainer, number, f"c{number}")
    assert guest.folders() == ["checkpoint-3", "checkpoint-4"]
    assert guest.said("saved.json")["files"] == ["checkpoint-4/model.safetensors"]


def test_what_the_trainer_saves_by_its_own_strategy_is_left_alone(guest: Guest) -> None:
    trainer = TrainerDouble(guest)
    trainer.step(1, by_strategy=True)
    saved_at(trainer, 2, "c2", by_strategy=True)
    for number in range(3, 6):
        saved_at(trainer, number, f"c{number}")
    assert guest.folders() == [f"checkpoint-{number}" for number in (1, 2, 4, 5)]


def test_what_it_went_on_from_goes_when_it_is_two_saves_old(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUNION_RESUME", "1")
    (guest.checkpoint_dir / "checkpoint-7").mkdir()
    assert huggingface.newest() == str(guest.checkpoint_dir / "checkpoint-7")
    trainer = TrainerDouble(guest)
    saved_at(trainer, 8, "c8")
    saved_at(trainer, 9, "c9")
    assert guest.folders() == ["checkpoint-8", "checkpoint-9"]


@pytest.fixture
def callback(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> Any:
    package = ModuleType("lightning.pytorch")
    package.Callback = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lightning", ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, "lightning.pytorch", package)
    return lightning.callback()


def a_trainer(step: int, *, saves: bool = True) -> Any:
    def save_checkpoint(path: Path) -> None:
        if not saves:
            raise OSError(28, "No space left on device")
        path.write_text("weights")

    strategy = SimpleNamespace(broadcast=lambda value: value, barrier=lambda: None)
    return SimpleNamespace(
        global_step=step, max_steps=60, world_size=1, is_global_zero=True, strategy=strategy,
        save_checkpoint=save_checkpoint,
    )  # fmt: skip


def test_a_lightning_trainer_is_saved_between_batches_and_ends_saved(guest: Guest, callback: Any) -> None:
    guest.asks("c1", final=True)
    with pytest.raises(SystemExit) as ended:
        callback.on_train_batch_end(a_trainer(5))
    assert ended.value.code == SAVED_RUN_ME_AGAIN
    saved = guest.said("saved.json")
    assert (saved["id"], saved["step"], saved["files"]) == ("c1", 5, ["step-5/lightning.ckpt"])


def test_a_lightning_trainer_that_cannot_save_trains_on(
    guest: Guest, callback: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    guest.asks("c1")
    callback.on_train_batch_end(a_trainer(5, saves=False))
    assert not (guest.control_dir / "saved.json").exists()
    assert guest.folders() == []
    assert "the checkpoint at step 5 was not saved: [Errno 28]" in capsys.readouterr().err


def test_a_lightning_trainer_s_last_step_is_told(guest: Guest, callback: Any) -> None:
    callback.on_train_batch_end(a_trainer(59))
    callback.on_train_end(a_trainer(60))
    assert guest.said("progress.json")["progress"] == 1.0


@pytest.fixture
def in_a_window(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> Guest:
    """One that is nearly over."""
    monkeypatch.setenv("GPUNION_WINDOWS", "1")
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    said = {"ends": time.time() + 1.0, "hard": True, "save_s": 0.0}
    (guest.control_dir / "window.json").write_text(json.dumps(said))
    return guest


def test_a_trainer_s_window_ends_with_a_save_of_its_own(in_a_window: Guest) -> None:
    trainer = TrainerDouble(in_a_window)
    trainer.answers.begins(0)
    with pytest.raises(SystemExit) as ended:
        trainer.step(1)
    assert ended.value.code == SAVED_RUN_ME_AGAIN
    assert in_a_window.said("progress.json")["step"] == 1
    assert in_a_window.folders() == ["checkpoint-1"]
    assert in_a_window.said("piece.json")["save_s"] >= 0.0
    assert not (in_a_window.control_dir / "saved.json").exists()


def test_a_trainer_tells_its_steps_where_its_job_runs_in_windows(in_a_window: Guest) -> None:
    (in_a_window.control_dir / "window.json").unlink()
    trainer = TrainerDouble(in_a_window)
    trainer.answers.begins(0)
    for step in range(1, 9):
        assert not trainer.step(step)
    trainer.answers.ended(8, 100)
    said = in_a_window.said("piece.json")
    assert said["steps"] == 5
    assert said["step_s"] > 0.0


def test_a_lightning_trainer_s_window_ends_with_a_save_of_its_own(in_a_window: Guest, callback: Any) -> None:
    callback.on_train_start(a_trainer(5))
    callback.on_train_batch_end(a_trainer(5))  # of several batches that make one step
    with pytest.raises(SystemExit) as ended:
        callback.on_train_batch_end(a_trainer(6))
    assert ended.value.code == SAVED_RUN_ME_AGAIN
    assert in_a_window.said("progress.json")["step"] == 6
    assert in_a_window.folders() == ["step-6"]


def test_a_lightning_trainer_that_cannot_save_for_its_window_trains_on(
    in_a_window: Guest, callback: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    callback.on_train_start(a_trainer(5))
    callback.on_train_batch_end(a_trainer(6, saves=False))
    callback.on_train_batch_end(a_trainer(7, saves=False))  # it does not try with every step
    assert capsys.readouterr().err.count("was not saved") == 1
    assert in_a_window.folders() == []
