"""The training loop inside a guest: it resumes, answers requests, and is a plain loop outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import gpunion
from gpunion.sdk.job import gang, messages, training


@dataclass
class Guest:
    """A job's directories, as an agent would have made them, and a program that counts."""

    checkpoint_dir: Path
    control_dir: Path
    total: int = 0
    done: list[int] = field(default_factory=list)

    def save(self, directory: Path) -> None:
        (directory / "deep").mkdir()
        (directory / "deep" / "total").write_text(str(self.total))

    def load(self, directory: Path) -> None:
        self.total = int((directory / "deep" / "total").read_text())

    def run(self, total_steps: int, during: Callable[[int], None] = lambda step: None) -> None:
        for step in training.Training(total_steps=total_steps, save=self.save, load=self.load).steps():
            self.total += step
            self.done.append(step)
            during(step)

    def ask(self, request_id: str, *, final: bool = False, at_step: int | None = None) -> None:
        """As the agent does: the file, then the signal."""
        request = {"id": request_id, "deadline": 0.0, "reason": "test", "final": final}
        if at_step is not None:
            request["at_step"] = at_step
        (self.control_dir / "request.json").write_text(json.dumps(request))
        os.kill(os.getpid(), signal.SIGUSR1)

    def said(self, name: str) -> dict[str, object]:
        return dict(json.loads((self.control_dir / name).read_text()))


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guest]:
    found = Guest(checkpoint_dir=tmp_path / "checkpoint", control_dir=tmp_path / "control")
    found.checkpoint_dir.mkdir()
    found.control_dir.mkdir()
    monkeypatch.setenv("GPUNION_CHECKPOINT_DIR", str(found.checkpoint_dir))
    monkeypatch.setenv("GPUNION_CONTROL_DIR", str(found.control_dir))
    monkeypatch.setenv("GPUNION_RESUME", "0")
    before = signal.getsignal(signal.SIGUSR1)
    yield found
    signal.signal(signal.SIGUSR1, before)


def never(directory: Path) -> None:
    pytest.fail(f"nobody asked for {directory}")


def test_outside_gpunion_it_is_a_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GPUNION_CHECKPOINT_DIR", "GPUNION_CONTROL_DIR", "GPUNION_RESUME"):
        monkeypatch.delenv(name, raising=False)
    run = training.Training(total_steps=3, save=never, load=never)
    assert list(run.steps()) == [0, 1, 2]
    assert training.notice() is None


def test_a_request_is_answered_between_steps_with_files_that_are_there(guest: Guest) -> None:
    guest.run(4, during=lambda step: guest.ask("c1") if step == 1 else None)
    saved = guest.said("saved.json")
    assert float(str(saved.pop("stall_s"))) >= 0.0
    assert saved == {
        "id": "c1",
        "step": 2,
        "counted": "steps",
        "progress": 0.5,
        "files": ["step-2/deep/total"],
    }
    assert (guest.checkpoint_dir / "step-2" / "deep" / "total").read_text() == "1"
    assert guest.done == [0, 1, 2, 3]


@pytest.mark.parametrize(("at_step", "saved_at"), [(7, 7), (3, 3), (1, 3), ("x", 3)])
def test_a_member_of_a_gang_saves_at_the_step_it_is_told_or_at_once_when_past_it(
    guest: Guest, at_step: int, saved_at: int
) -> None:
    guest.run(10, during=lambda step: guest.ask("c1", at_step=at_step) if step == 2 else None)
    assert guest.said("saved.json")["step"] == saved_at


def test_a_request_that_waits_for_its_step_gives_way_to_a_newer_one(guest: Guest) -> None:
    def during(step: int) -> None:
        if step == 1:
            guest.ask("c1", at_step=8)
        if step == 3:
            guest.ask("c2", final=True, at_step=5)

    with pytest.raises(SystemExit):
        guest.run(10, during=during)
    assert (guest.said("saved.json")["id"], guest.said("saved.json")["step"]) == ("c2", 5)


def test_a_member_knows_who_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GPUNION_GANG_RANK", "GPUNION_GANG_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert (gang.rank(), gang.size()) == (0, 1)
    monkeypatch.setenv("GPUNION_GANG_RANK", "1")
    monkeypatch.setenv("GPUNION_GANG_SIZE", "2")
    assert (gang.rank(), gang.size()) == (1, 2)


def test_a_final_request_ends_the_program_saved(guest: Guest) -> None:
    with pytest.raises(SystemExit) as end:
        guest.run(10, during=lambda step: guest.ask("c1", final=True) if step == 4 else None)
    assert end.value.code == 85
    assert guest.done == [0, 1, 2, 3, 4]
    assert guest.said("saved.json")["step"] == 5


LATE_REQUEST = """
import os, signal
from gpunion.sdk.job.messages import Mailbox

class AskedWhileItGoes:
    def __del__(self, kill=os.kill, pid=os.getpid(), signum=signal.SIGUSR1):
        kill(pid, signum)

late = AskedWhileItGoes()  # taken apart with the module, when the interpreter has no handlers any more
Mailbox()
"""


def test_a_request_that_comes_while_the_program_ends_does_not_make_it_a_failure(guest: Guest) -> None:
    source = str(Path(gpunion.__file__).parents[1])
    ended = subprocess.run([sys.executable, "-c", LATE_REQUEST], env={**os.environ, "PYTHONPATH": source})
    assert ended.returncode == 0


def test_a_resumed_program_goes_on_at_the_saved_step_with_the_saved_state(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit):
        guest.run(10, during=lambda step: guest.ask("c1", final=True) if step == 4 else None)
    monkeypatch.setenv("GPUNION_RESUME", "1")
    (guest.control_dir / "request.json").unlink()
    again = Guest(guest.checkpoint_dir, guest.control_dir)
    again.run(10)
    assert again.done == [5, 6, 7, 8, 9]
    assert again.total == sum(range(10))


def test_without_resume_an_old_checkpoint_is_ignored_and_never_mistaken_for_a_new_one(guest: Guest) -> None:
    guest.run(3, during=lambda step: guest.ask("c1") if step == 1 else None)
    fresh = Guest(guest.checkpoint_dir, guest.control_dir, total=1000)
    fresh.run(3, during=lambda step: fresh.ask("c2") if step == 1 else None)
    assert fresh.done == [0, 1, 2]
    assert (guest.checkpoint_dir / "step-2" / "deep" / "total").read_text() == "1001"


def test_resume_without_a_checkpoint_starts_at_the_beginning(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUNION_RESUME", "1")
    guest.run(2)
    assert guest.done == [0, 1]


def test_a_directory_that_was_being_written_when_the_program_died_is_not_resumed_from(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest.run(3, during=lambda step: guest.ask("c1") if step == 1 else None)
    (guest.checkpoint_dir / ".saving-3-1").mkdir()
    (guest.checkpoint_dir / "step-wrong").mkdir()
    monkeypatch.setenv("GPUNION_RESUME", "1")
    again = Guest(guest.checkpoint_dir, guest.control_dir)
    again.run(3)
    assert again.done == [2]


def test_a_request_is_answered_once(guest: Guest) -> None:
    saves: list[Path] = []
    guest.save = saves.append  # type: ignore[method-assign, assignment]
    guest.run(5, during=lambda step: guest.ask("c1"))
    assert len(saves) == 1
    assert guest.said("saved.json")["step"] == 1


def test_the_one_before_is_kept_and_older_ones_are_dropped(guest: Guest) -> None:
    guest.run(6, during=lambda step: guest.ask(f"c{step}"))
    assert sorted(path.name for path in guest.checkpoint_dir.iterdir()) == ["step-4", "step-5"]


def test_a_save_that_fails_leaves_the_last_answer_and_training_goes_on(
    guest: Guest, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(directory: Path) -> None:
        (directory / "part").write_text("half")
        raise OSError("no space left")

    guest.save = fail  # type: ignore[method-assign]
    guest.run(3, during=lambda step: guest.ask("c1", final=True) if step == 0 else None)
    assert guest.done == [0, 1, 2]
    assert not (guest.control_dir / "saved.json").exists()
    assert list(guest.checkpoint_dir.iterdir()) == []
    assert capsys.readouterr().err.count("no space left") == 1  # not tried at every step
    assert guest.said("not-saved.json") == {"id": "c1", "trouble": "no space left"}


def test_where_not_even_a_folder_can_be_made_training_goes_on_and_the_next_save_works(
    guest: Guest, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on a full disk, or in a folder that its program has closed."""
    (guest.checkpoint_dir / ".saving-1").write_text("in the way")
    guest.run(4, during=lambda step: guest.ask("c1" if step < 2 else "c2") if step != 3 else None)
    assert guest.done == [0, 1, 2, 3]
    assert "the checkpoint at step 1 was not saved" in capsys.readouterr().err
    assert guest.said("not-saved.json")["id"] == "c1"
    assert guest.said("saved.json")["id"] == "c2"


def test_a_copy_for_which_there_is_no_memory_ends_nothing(guest: Guest) -> None:
    def copied() -> Callable[[Path], object]:
        raise MemoryError("not that much")

    run = training.Training(total_steps=3, load=guest.load, snapshot=copied)
    for step in run.steps():
        guest.done.append(step)
        guest.ask("c1")
    assert guest.done == [0, 1, 2]
    assert guest.said("not-saved.json") == {"id": "c1", "trouble": "not that much"}
    assert list(guest.checkpoint_dir.iterdir()) == []


def test_a_periodic_save_that_failed_is_not_tried_again_and_the_next_one_is(guest: Guest) -> None:
    well, tried = guest.save, []

    def save(directory: Path) -> None:
        tried.append(directory)
        if len(tried) == 1:
            raise OSError("no space left")
        well(directory)

    guest.save = save  # type: ignore[method-assign]
    guest.run(4, during=lambda step: guest.ask("c1" if step < 2 else "c2") if step != 3 else None)
    assert len(tried) == 2
    assert guest.said("saved.json")["id"] == "c2"


def test_a_last_save_that_failed_is_tried_again_after_a_pause(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "TRY_AGAIN_S", 0.0)
    well, tried = guest.save, []

    def save(directory: Path) -> None:
        tried.append(directory)
        if len(tried) == 1:
            raise OSError("no space left")
        well(directory)

    guest.save = save  # type: ignore[method-assign]
    with pytest.raises(SystemExit):
        guest.run(3, during=lambda step: guest.ask("c1", final=True))
    assert (len(tried), guest.said("saved.json")["id"]) == (2, "c1")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"reason": "no id"}', '{"id": ""}'])
def test_a_request_that_makes_no_sense_is_ignored(guest: Guest, text: str) -> None:
    (guest.control_dir / "request.json").write_text(text)
    guest.run(2)
    assert guest.done == [0, 1]
    assert not (guest.control_dir / "saved.json").exists()


def test_progress_is_told_at_the_start_and_complete_at_the_end(guest: Guest) -> None:
    seen = []
    guest.run(4, during=lambda step: seen.append(guest.said("progress.json")))
    assert seen[0] == {"step": 0, "total_steps": 4, "progress": 0.0}
    assert guest.said("progress.json") == {"step": 4, "total_steps": 4, "progress": 1.0}


def test_a_loop_of_no_steps_is_complete(guest: Guest) -> None:
    guest.run(0)
    assert guest.said("progress.json")["progress"] == 1.0


def test_a_notice_is_there_for_the_program_to_see(guest: Guest) -> None:
    assert training.notice() is None
    notice = {"reason": "owner is back", "deadline": 123.5, "gpus": [0, 1], "planned": True}
    (guest.control_dir / "notice.json").write_text(json.dumps(notice))
    assert training.notice() == training.Notice(
        reason="owner is back", deadline=123.5, gpus=(0, 1), planned=True
    )


def test_the_library_imports_nothing_else_of_ours() -> None:
    program = (
        "import sys, gpunion.sdk.job.training\n"
        "print(sorted(name for name in sys.modules if name.startswith('gpunion')))"
    )
    answer = subprocess.run(
        [sys.executable, "-S", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(gpunion.__file__).parents[1])},
    )
    names = ("aside", "folders", "messages", "piece", "torch_memory", "training")
    job = [f"gpunion.sdk.job.{name}" for name in names]
    assert answer.stdout == f"{['gpunion', 'gpunion._version', 'gpunion.sdk', 'gpunion.sdk.job', *job]}\n"
