"""The messages between the agent and a guest's program, and how much of the guest's word is believed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpunion.agent.dependencies import ControlFiles
from gpunion.domain.jobs.checkpoint import Counted
from gpunion.limits import STEP_MAX, finite, readable
from gpunion.ports.runtime import GuestPaths

REQUEST_FILE, SAVED_FILE, NOTICE_FILE, PROGRESS_FILE = (
    "request.json",
    "saved.json",
    "notice.json",
    "progress.json",
)
WINDOW_FILE = "window.json"  # until when the program has its place, where it runs in windows
PIECE_FILE = "piece.json"  # the program's: what its steps and its memory are like, where it runs in windows
NOT_SAVED_FILE = "not-saved.json"  # the program's: why it could not
SAID_LIMIT_CHARS = 200
# The agent asks for the GPU in the one, the program answers in the other.
ASIDE_FILE, STEPPED_ASIDE_FILE = "aside.json", "stepped-aside.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedMarker:
    id: str
    step: int
    progress: float
    stall_s: float | None  # how long the program stood still, where it says so
    counted: Counted
    files: tuple[str, ...] | None  # None: the whole directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    step: int = 0
    progress: float = 0.0


def read_saved(control: ControlFiles, directory: Path) -> SavedMarker | None:
    message = control.read_json(directory, SAVED_FILE)
    if message is None or not isinstance(message.get("id"), str):
        return None
    files = message.get("files")
    named = isinstance(files, list) and all(isinstance(name, str) for name in files)
    return SavedMarker(
        id=str(message["id"]),
        step=_step(message.get("step")),
        progress=_share(message.get("progress")),
        stall_s=finite(message.get("stall_s")),
        counted=_counted(message.get("counted")),
        files=tuple(str(name) for name in files) if named and isinstance(files, list) else None,
    )


def read_not_saved(control: ControlFiles, directory: Path, request_id: str) -> str:
    """What its program says of why it could not save; empty where it says nothing of that request."""
    message = control.read_json(directory, NOT_SAVED_FILE)
    if message is None or message.get("id") != request_id:
        return ""
    return readable(str(message.get("trouble") or "")[:SAID_LIMIT_CHARS]) or "no reason given"


def read_reached(control: ControlFiles, paths: GuestPaths) -> Reached:
    """How far the program says it is: in its progress file, or in its last save."""
    message = control.read_json(paths.control_dir, PROGRESS_FILE) or {}
    saved = read_saved(control, paths.control_dir)
    step, progress = _step(message.get("step")), _share(message.get("progress"))
    if saved is not None and saved.step > step:
        return Reached(step=saved.step, progress=saved.progress)
    return Reached(step=step, progress=progress)


def can_step_aside(control: ControlFiles, directory: Path) -> bool:
    """The program has said that it gives up its GPU between two steps when it is asked."""
    message = control.read_json(directory, PROGRESS_FILE) or {}
    return message.get("steps_aside") is True


@dataclass(frozen=True, slots=True, kw_only=True)
class SteppedAside:
    done: bool
    trouble: str


def read_stepped_aside(control: ControlFiles, directory: Path, request_id: str) -> SteppedAside | None:
    """What it answers to that very request; None: nothing as yet."""
    message = control.read_json(directory, STEPPED_ASIDE_FILE)
    if message is None or message.get("id") != request_id:
        return None
    return SteppedAside(done=message.get("done") is True, trouble=str(message.get("trouble") or ""))


def _step(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return min(max(0, value), STEP_MAX)


def _counted(value: object) -> Counted:
    """What saves a program from outside says it; a program that speaks for itself counts steps."""
    return Counted(value) if isinstance(value, str) and value in set(Counted) else Counted.STEPS


def _share(value: object) -> float:
    return min(1.0, max(0.0, finite(value) or 0.0))
