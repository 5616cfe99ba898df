"""A training loop that can be saved, moved and resumed at any step.

    from gpunion.sdk.job import training

    def save(directory): np.savez(directory / "state.npz", w=w)
    def load(directory): w[:] = np.load(directory / "state.npz")["w"]

    run = training.Training(total_steps=1000, save=save, load=load)
    for step in run.steps():
        ...  # one step; everything it changes must be in what `save` writes, random generators too

The loop begins at the saved step when there is one. Between steps it looks whether a checkpoint is wanted;
`save` gets an empty directory and writes into it what it likes. When the machine's owner wants it back, the
loop saves once more and ends the program with status 85, "saved, run me again". Outside GPUnion it is a plain
loop.

In any other language, speak the same files (paths are in the environment, JSON, written under another name
and renamed so that nobody sees a part):

- GPUNION_CHECKPOINT_DIR holds all that is needed to go on; when GPUNION_RESUME is 1, go on from there.
- $GPUNION_CONTROL_DIR/request.json {"id", "deadline", "reason", "final"} asks for a checkpoint (SIGUSR1 comes
  with it, to programs that catch it). Write the files, sync them, then make saved.json {"id", "step",
  "progress", "files"}: the request's id, completed steps, 0..1, and paths relative to the checkpoint
  directory. Leave those files alone until two saves later. If "final", exit with status 85.
- notice.json {"reason", "deadline", "gpus", "planned"}: the owner wants the machine back by then (Unix time).
  SIGTERM comes 5 s before, SIGKILL at the deadline.
- progress.json {"step", "total_steps", "progress"} is yours to write, now and then, for people to look at.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SAVED_RUN_ME_AGAIN = 85
LOOK_S = 0.05  # how often a loop of very short steps looks for a request
PROGRESS_S = 0.25  # how often progress is told
MESSAGE_MAX_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The owner wants the machine back."""

    reason: str
    deadline: float  # Unix time
    gpus: tuple[int, ...]
    planned: bool


def notice() -> Notice | None:
    """The notice this machine's owner has given, if any."""
    control_dir = os.environ.get("GPUNION_CONTROL_DIR")
    message = _read(Path(control_dir) / "notice.json") if control_dir else None
    if message is None:
        return None
    gpus = message.get("gpus") or ()
    return Notice(
        reason=str(message.get("reason", "")),
        deadline=float(str(message.get("deadline") or 0.0)),
        gpus=tuple(int(str(gpu)) for gpu in gpus) if isinstance(gpus, list) else (),
        planned=bool(message.get("planned", False)),
    )


class Training:
    """See the module's documentation."""

    def __init__(
        self, *, total_steps: int, save: Callable[[Path], object], load: Callable[[Path], object]
    ) -> None:
        checkpoint_dir = os.environ.get("GPUNION_CHECKPOINT_DIR")
        control_dir = os.environ.get("GPUNION_CONTROL_DIR")
        self.total_steps = total_steps
        self._load = load
        self._resume = os.environ.get("GPUNION_RESUME") == "1"
        self._folder = _Checkpoints(Path(checkpoint_dir), save) if checkpoint_dir else None
        self._control = Path(control_dir) if control_dir else None
        self._answered = ""
        self._asked = False
        self._looked_s = self._told_s = float("-inf")
        if self._control and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGUSR1, self._on_request)

    def steps(self) -> Iterator[int]:
        """The steps still to do. Between two of them the state is whole, and is saved when that is wanted."""
        step = self._first_step()
        while step < self.total_steps:
            self._tell_progress(step)
            self._answer_request(step)
            yield step
            step += 1
        self._tell_progress(step, last=True)

    def _first_step(self) -> int:
        if self._folder is None or not self._resume:
            return 0
        newest = self._folder.newest()
        if newest is None:
            return 0
        self._load(self._folder.path(newest))
        self._folder.trust(newest)
        return newest

    def _answer_request(self, step: int) -> None:
        now_s = time.monotonic()
        if (
            self._control is None
            or self._folder is None
            or (not self._asked and now_s < self._looked_s + LOOK_S)
        ):
            return
        self._looked_s, self._asked = now_s, False
        request = _read(self._control / "request.json")
        if request is None or str(request.get("id", "")) in ("", self._answered):
            return
        try:
            files = self._folder.keep(step)
            saved = {"id": request["id"], "step": step, "progress": self._progress(step), "files": files}
            _write(self._control / "saved.json", saved)
        except OSError as error:
            # Training on is worth more than ending here: the agent sees that no answer came, and says so.
            print(f"gpunion: the checkpoint at step {step} was not saved: {error}", file=sys.stderr)
            return
        self._answered = str(request["id"])
        if request.get("final"):
            raise SystemExit(SAVED_RUN_ME_AGAIN)
        self._folder.drop_all_but_two()

    def _tell_progress(self, step: int, *, last: bool = False) -> None:
        now_s = time.monotonic()
        if self._control is None or (not last and now_s < self._told_s + PROGRESS_S):
            return
        self._told_s = now_s
        message = {"step": step, "total_steps": self.total_steps, "progress": self._progress(step)}
        try:
            _write(self._control / "progress.json", message)
        except OSError:
            return  # only for people to look at

    def _progress(self, step: int) -> float:
        return min(1.0, step / self.total_steps) if self.total_steps > 0 else 1.0

    def _on_request(self, signum: int, frame: object) -> None:
        self._asked = True


class _Checkpoints:
    """Directories step-<n>, each whole: written under another name, synced, renamed."""

    def __init__(self, root: Path, save: Callable[[Path], object]) -> None:
        self._root = root
        self._save = save
        self._trusted: list[int] = []  # saved or loaded by this very program, oldest first

    def path(self, step: int) -> Path:
        return self._root / f"step-{step}"

    def newest(self) -> int | None:
        return max(self._steps(), default=None)

    def trust(self, step: int) -> None:
        self._trusted.append(step)

    def keep(self, step: int) -> list[str]:
        """Save the state, unless that very state is there already; returns its files."""
        target = self.path(step)
        if step not in self._trusted:
            shutil.rmtree(target, ignore_errors=True)
            fresh = self._root / f".saving-{step}-{os.getpid()}"
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            try:
                self._save(fresh)
                _sync_tree(fresh)
                fresh.rename(target)
                _sync(self._root)
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
            self.trust(step)
        found = (Path(folder, name) for folder, _, names in os.walk(target) for name in names)
        return sorted(path.relative_to(self._root).as_posix() for path in found)

    def drop_all_but_two(self) -> None:
        """The one before may still be on its way to the vault."""
        self._trusted = self._trusted[-2:]
        for step in self._steps():
            if step not in self._trusted:
                shutil.rmtree(self.path(step), ignore_errors=True)

    def _steps(self) -> list[int]:
        names = (path.name.removeprefix("step-") for path in self._root.glob("step-*") if path.is_dir())
        return [int(name) for name in names if name.isdecimal()]


def _sync_tree(root: Path) -> None:
    for folder, _, names in os.walk(root):
        for name in names:
            _sync(Path(folder, name))
        _sync(Path(folder))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> dict[str, object] | None:
    try:
        with open(path, "rb") as file:
            message = json.loads(file.read(MESSAGE_MAX_BYTES))
    except (OSError, ValueError):
        return None
    return message if isinstance(message, dict) else None


def _write(path: Path, message: Mapping[str, object]) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(json.dumps(dict(message)), encoding="utf-8")
    fresh.rename(path)
