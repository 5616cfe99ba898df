"""The files through which an agent and a program talk, from the program's side."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

SAVED_RUN_ME_AGAIN = 85
LOOK_S = 0.05  # how often a loop of very short steps looks for a request
PROGRESS_S = 0.25  # how often progress is told
MESSAGE_MAX_BYTES = 64 * 1024
TRY_AGAIN_S = 1.0  # after a last save that failed; longer after each


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The owner wants the machine back."""

    reason: str
    deadline: float  # Unix time
    gpus: tuple[int, ...]
    planned: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Please save. `final`: and then end with status 85. `at_step`: not before, as others of the gang do.
    `deadline`: in Unix time, after that nobody waits for it."""

    id: str
    final: bool
    at_step: int = 0
    deadline: float | None = None


# A last save that nobody asked for, since the program's window is nearly over.
OURSELVES = Request(id="", final=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a save holds, and how long the program stood still for it."""

    step: int
    progress: float
    files: list[str] | None  # None: all that is in the directory
    stall_s: float
    counted: str = "steps"  # or "seconds", or "unknown": what `step` is counted in


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """How far the program is with giving up its GPU. `trouble`: it has not, and why."""

    id: str
    done: bool = False
    moved_bytes: int = 0
    took_s: float = 0.0
    trouble: str = ""


class Mailbox:
    """What was asked and what is answered. Outside GPUnion nobody asks."""

    def __init__(self) -> None:
        directory = os.environ.get("GPUNION_CONTROL_DIR")
        self.directory = Path(directory) if directory else None
        self.steps_aside = False  # said with the progress: it can give up its GPU between two steps
        self._answered = self._answered_aside = ""
        self._asked = self._asked_aside = False
        self._pending: Request | None = None
        self._failed, self._failures, self._again_s = "", 0, float("-inf")
        self._looked_s = self._looked_aside_s = self._told_s = float("-inf")
        if self.directory and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGUSR1, self._on_request)
            atexit.register(_be_deaf)

    def request(self, step: int | None = None) -> Request | None:
        """What is asked and not yet answered; where a step is given, once that is reached. Cheap enough to be
        called between any two steps, and has to be: a step that is passed is not saved any more."""
        now_s = time.monotonic()
        if self.directory is None:
            return None
        if self._asked or now_s >= self._looked_s + LOOK_S:
            self._looked_s, self._asked = now_s, False
            self._pending = self._look(self.directory)
        pending = self._pending
        if pending is None or (step is not None and step < pending.at_step):
            return None
        if pending.id == self._failed and now_s < self._again_s:
            return None
        self._pending = None
        return pending

    def _look(self, directory: Path) -> Request | None:
        message = read(directory / "request.json")
        if message is None or str(message.get("id", "")) in ("", self._answered):
            return None
        at_step, deadline = message.get("at_step"), message.get("deadline")
        return Request(
            id=str(message["id"]),
            final=bool(message.get("final")),
            at_step=at_step if isinstance(at_step, int) else 0,
            deadline=deadline if isinstance(deadline, int | float) else None,
        )

    def ask_again_soon(self) -> None:
        """A request could not be answered yet: it is looked for at the next step."""
        self._asked = True

    def answer(self, request: Request, saved: Saved) -> None:
        """OSError: it could not be said."""
        assert self.directory is not None
        message = {
            "id": request.id,
            "step": saved.step,
            "progress": saved.progress,
            "files": saved.files,
            "stall_s": round(saved.stall_s, 6),
            "counted": saved.counted,
        }
        write(self.directory / "saved.json", message)
        self._answered = request.id

    def could_not(self, request: Request, trouble: object) -> None:
        """It was tried and did not work: the agent is told why. A last save is tried again, after a pause."""
        self._failures = self._failures + 1 if request.id == self._failed else 1
        self._failed = request.id
        self._again_s = time.monotonic() + TRY_AGAIN_S * 2 ** min(self._failures - 1, 5)
        if not request.final:
            self._answered = request.id
        if self.directory is not None:
            with contextlib.suppress(OSError):  # then the agent sees that no answer came
                message = {"id": request.id, "trouble": str(trouble) or type(trouble).__name__}
                write(self.directory / "not-saved.json", message)

    def tell_progress(self, step: int, total_steps: int, *, last: bool = False) -> None:
        now_s = time.monotonic()
        if self.directory is None or (not last and now_s < self._told_s + PROGRESS_S):
            return
        self._told_s = now_s
        with contextlib.suppress(OSError):  # only for people to look at
            self._tell_progress(step, total_steps)

    def tell_last_step(self, step: int, total_steps: int) -> None:
        """Of a program that saved itself and ends, without having been asked: what it leaves is of this step.

        OSError: it could not be said."""
        if self.directory is not None:
            self._tell_progress(step, total_steps)

    def _tell_progress(self, step: int, total_steps: int) -> None:
        assert self.directory is not None
        message = {"step": step, "total_steps": total_steps, "progress": share(step, total_steps)}
        if self.steps_aside:
            message["steps_aside"] = True
        write(self.directory / "progress.json", message)

    def aside(self) -> str | None:
        """The id under which the GPU is asked for, if that was not answered yet. As cheap as `request`."""
        now_s = time.monotonic()
        if not self._asked_aside and now_s < self._looked_aside_s + LOOK_S:
            return None
        self._looked_aside_s, self._asked_aside = now_s, False
        asked = self.aside_now()
        return None if asked == self._answered_aside else asked

    def aside_now(self) -> str | None:
        """The id under which the GPU is asked for at this moment. A file that is there and cannot be read,
        for want of descriptors or memory, is still the last question."""
        if self.directory is None or not (self.directory / "aside.json").exists():
            return None
        message = read(self.directory / "aside.json")
        return self._answered_aside or None if message is None else str(message.get("id", "")) or None

    def answer_aside(self, aside: Aside) -> None:
        assert self.directory is not None
        self._answered_aside = aside.id
        with contextlib.suppress(OSError):  # unheard, it is moved by the driver
            write(self.directory / "stepped-aside.json", asdict(aside))

    def aside_is_over(self) -> None:
        assert self.directory is not None
        with contextlib.suppress(OSError):
            (self.directory / "stepped-aside.json").unlink()

    def notice(self) -> Notice | None:
        message = read(self.directory / "notice.json") if self.directory else None
        if message is None:
            return None
        gpus = message.get("gpus") or ()
        return Notice(
            reason=str(message.get("reason", "")),
            deadline=float(str(message.get("deadline") or 0.0)),
            gpus=tuple(int(str(gpu)) for gpu in gpus) if isinstance(gpus, list) else (),
            planned=bool(message.get("planned", False)),
        )

    def _on_request(self, signum: int, frame: object) -> None:
        self._asked = self._asked_aside = True


def _be_deaf() -> None:
    """A request may come while the program ends. An interpreter that is nearly gone has no handler any more,
    and would die of the signal: a program that has finished would count as one that has failed."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def share(step: int, total_steps: int) -> float:
    return min(1.0, step / total_steps) if total_steps > 0 else 1.0


def read(path: Path) -> dict[str, object] | None:
    try:
        with open(path, "rb") as file:
            message = json.loads(file.read(MESSAGE_MAX_BYTES))
    except (OSError, ValueError):
        return None
    return message if isinstance(message, dict) else None


def write(path: Path, message: Mapping[str, object]) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(json.dumps(dict(message)), encoding="utf-8")
    fresh.rename(path)
