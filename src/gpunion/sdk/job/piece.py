"""A piece of a job that runs in windows: how long its steps take, and when it is over.

The program tells its agent what its steps, its coming up and its memory are like, so that the next piece is
cut to fit; and it reads where its window ends, saves itself at the last safe point before that, and ends. A
program whose job does not run in windows tells nothing, and no window ends for it.
"""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from gpunion.sdk.job.messages import OURSELVES, Mailbox, Request, read, write

WINDOWS_VARIABLE, SAFE_VARIABLE, MEMORY_VARIABLE = (
    "GPUNION_WINDOWS",
    "GPUNION_SAFE_EVERY",
    "GPUNION_GPU_MEMORY_BYTES",
)
LOOK_S = 0.05  # how often a loop of very short steps looks whether its window has another end
TOLD_S = 1.0  # how often is told what its steps are like
# The first steps compile, choose kernels and fill caches: they are part of coming up.
WARM_UP = 3
# Its agent asks one second before the last moment for that: by itself it goes another one earlier.
AHEAD_S = 2.0
# How much longer than usual the next steps may take, one time in twenty at most: with few timed ones by
# Cantelli's inequality, which assumes nothing of how they are distributed; with many as much as the skewed
# distributions of steps ask for, where a mean of some dozens is itself not known better.
FEW_Z, MANY_Z, MANY = math.sqrt(19.0), 2.4, 30
# A step that took so many times the usual, and so long, is one in which the program was frozen or dumped.
STOOD_STILL_TIMES, STOOD_STILL_S = 50.0, 10.0
TRY_AGAIN_S, TRY_AGAIN_MOST_S = 1.0, 30.0  # after a save that failed
CAUSES_MOST = 10  # of an exception, each the cause of the one before
# What the driver keeps on a GPU for each process, beside what PyTorch counts; of a small limit a quarter.
CONTEXT_BYTES, CONTEXT_SHARE = 640 * 1024**2, 0.25


class StepTimes:
    """Mean and deviation of what steps took, one after the other (Welford)."""

    def __init__(self) -> None:
        self.steps = 0
        self.mean_s = self.worst_s = 0.0
        self._squares = 0.0

    def add(self, took_s: float, steps: int = 1) -> None:
        """`steps` of them took so long each."""
        self.worst_s = max(self.worst_s, took_s)
        if self.steps >= WARM_UP and took_s > max(STOOD_STILL_S, STOOD_STILL_TIMES * self.mean_s):
            return
        self.steps += steps
        apart_s = took_s - self.mean_s
        self.mean_s += apart_s * steps / self.steps
        self._squares += steps * apart_s * (took_s - self.mean_s)

    @property
    def deviation_s(self) -> float:
        return math.sqrt(max(0.0, self._squares) / self.steps) if self.steps else 0.0

    def next_s(self, steps: int) -> float:
        """What the next ones take at most, at the risk of one in twenty."""
        z = MANY_Z if self.steps >= MANY else FEW_Z
        return steps * self.mean_s + z * self.deviation_s * math.sqrt(steps)


class Piece:
    """Of the process that talks with the agent. `goes_on`: a step begins; `done`: it has ended."""

    def __init__(self, mailbox: Mailbox, *, tells: bool = True) -> None:
        """`tells`: False in a process that trains together with the one that does."""
        in_windows = runs_in_windows()
        self._directory = mailbox.directory if in_windows and tells else None
        self._mailbox = mailbox
        self._safe_every = max(1, _number(os.environ.get(SAFE_VARIABLE)))
        self._limit_bytes = _number(os.environ.get(MEMORY_VARIABLE)) if in_windows else 0
        self._window = WindowFile(self._directory)
        self.times = StepTimes()
        self._came_up_s: float | None = None  # from the process's start to its first step
        self._warming_s, self._warm_up = 0.0, 0  # what the first steps took, and how many they were
        self._at: int | None = None
        self._done: int | None = None
        self._since_s = 0.0
        self._save_s = 0.0
        self._told_s = self._again_s = float("-inf")
        self._failures = 0
        self._out_of_memory = False
        self._keep_to_memory()
        if self._directory is not None:
            self._tell_when_out_of_memory()

    def goes_on(self, step: int) -> None:
        """The work of this step begins, or what comes after a save does."""
        if self._directory is None:
            return
        self._keep_to_memory()
        self._since_s, self._at = time.monotonic(), step
        if self._came_up_s is None:
            self._came_up_s = _age_s()

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """What is done meanwhile is no part of a step."""
        began_s = time.monotonic()
        try:
            yield
        finally:
            self._since_s += time.monotonic() - began_s

    def done(self, step: int) -> None:
        """So many steps are completed."""
        if self._directory is None or self._at is None or step <= self._at:
            return
        now_s = time.monotonic()
        steps, took_s = step - self._at, now_s - self._since_s
        if self._warm_up < WARM_UP:
            self._warm_up += steps
            self._warming_s += took_s
        else:
            self.times.add(took_s / steps, steps)
        self._at = self._done = step
        self._since_s = now_s
        if now_s >= self._told_s + TOLD_S:
            self.tell()

    def request(self, step: int, every: int = 1) -> Request | None:
        """A last save that nobody asked for, where the next point at which it may be saved would be too late.

        Not before it has done a step: a window that is too short for one is not its own to judge."""
        now_s = time.monotonic()
        if self._directory is None or self._done is None or now_s < self._again_s:
            return None
        until_s = self._window.saved_by_s(now_s, self._save_s)
        every = math.lcm(max(1, every), self._safe_every)
        if until_s is None or step % every or now_s + self.times.next_s(every) <= until_s:
            return None
        return OURSELVES

    def saved(self, took_s: float) -> None:
        """A save took so long until it was on the disk."""
        self._save_s = max(self._save_s, took_s)

    def leaves(self, step: int, total_steps: int) -> None:
        """It has saved itself, and ends. OSError: its agent cannot be told how far it is."""
        self._mailbox.tell_last_step(step, total_steps)
        self.tell()
        left_s = self._window.left_s(time.monotonic())
        when = "" if left_s is None else f" in {max(0.0, left_s):.1f} s"
        print(f"gpunion: its window ends{when}: saved at step {step}", file=sys.stderr, flush=True)

    def could_not(self) -> None:
        """That save failed: it goes on, and tries again after a pause."""
        self._failures += 1
        pause_s = min(TRY_AGAIN_MOST_S, TRY_AGAIN_S * 2 ** min(self._failures - 1, 5))
        self._again_s = time.monotonic() + pause_s

    def tell(self) -> None:
        if self._directory is None or (self._done is None and not self._out_of_memory):
            return
        self._told_s = time.monotonic()
        message = {
            "steps": self.times.steps,
            "step_s": self.times.mean_s,
            "step_sd_s": self.times.deviation_s,
            "worst_step_s": self.times.worst_s,
            "begin_s": self._begin_s(),
            "save_s": self._save_s or None,
            "peak_bytes": _peak_bytes(),
            "short_of_memory": self._out_of_memory,
        }
        with contextlib.suppress(OSError):  # then the next piece is cut by time alone
            write(self._directory / "piece.json", message)

    def _begin_s(self) -> float | None:
        """With as much of the first steps as they took longer than those that came later."""
        if self._came_up_s is None:
            return None
        usual_s = self._warm_up * self.times.mean_s if self.times.steps else self._warming_s
        return self._came_up_s + max(0.0, self._warming_s - usual_s)

    def _keep_to_memory(self) -> None:
        """Where it was granted less of a GPU's memory than it asked for, it is not to take more."""
        cuda = _cuda()
        if self._limit_bytes <= 0 or cuda is None:
            return
        limit_bytes, self._limit_bytes = self._limit_bytes, 0
        limit_bytes -= int(min(CONTEXT_BYTES, CONTEXT_SHARE * limit_bytes))
        for number in range(cuda.device_count()):
            total_bytes = cuda.get_device_properties(number).total_memory
            if limit_bytes < total_bytes:
                cuda.set_per_process_memory_fraction(limit_bytes / total_bytes, number)

    def _tell_when_out_of_memory(self) -> None:
        """An exception that nobody catches ends the program: if it is for want of memory, that is told."""
        former = sys.excepthook

        def ended_by(kind: type[BaseException], trouble: BaseException, trace: TracebackType | None) -> None:
            if is_out_of_memory(trouble):
                self._out_of_memory = True
                self.tell()
            former(kind, trouble, trace)

        sys.excepthook = ended_by


class WindowFile:
    """window.json, read again where it is another file than before."""

    def __init__(self, directory: Path | None) -> None:
        self._path = None if directory is None else directory / "window.json"
        self._looked_s = float("-inf")
        self._seen: tuple[int, int] | None = None
        self._ends_s: float | None = None  # by this process's clock
        self._save_s = 0.0
        self.changed_s = float("-inf")  # when it was found to be another one

    def saved_by_s(self, now_s: float, save_s: float) -> float | None:
        """By when its last save has to begin; None: its window has no end."""
        ends_s = self._look(now_s)
        return None if ends_s is None else ends_s - max(self._save_s, save_s) - AHEAD_S

    def left_s(self, now_s: float) -> float | None:
        return None if self._ends_s is None else self._ends_s - now_s

    def _look(self, now_s: float) -> float | None:
        if self._path is None or now_s < self._looked_s + LOOK_S:
            return self._ends_s
        self._looked_s = now_s
        try:
            about = self._path.stat()
        except OSError:
            self._seen = self._ends_s = None
            return None
        seen = (about.st_mtime_ns, about.st_ino)
        if seen != self._seen:
            self._seen, self.changed_s = seen, now_s
            said = read(self._path) or {}
            ends, save_s = _finite(said.get("ends")), _finite(said.get("save_s"))
            # Later changes of the wall clock move no end.
            self._ends_s = None if ends is None else now_s + ends - time.time()
            self._save_s = max(0.0, save_s or 0.0)
        return self._ends_s


def runs_in_windows() -> bool:
    return os.environ.get(WINDOWS_VARIABLE) == "1"


def is_out_of_memory(trouble: BaseException | None) -> bool:
    """Of a GPU, as PyTorch says it; also where a trainer raised its own exception for that."""
    for _ in range(CAUSES_MOST):
        if trouble is None:
            return False
        for kind in type(trouble).__mro__:
            if kind.__name__ == "OutOfMemoryError" and kind.__module__.startswith("torch"):
                return True
        words = str(trouble)
        if isinstance(trouble, RuntimeError) and "CUDA" in words and "out of memory" in words:
            return True
        trouble = trouble.__cause__ or trouble.__context__
    return False


def _peak_bytes() -> int:
    """The most that PyTorch held of one GPU; 0: it holds none, or is not used."""
    cuda = _cuda()
    if cuda is None:
        return 0
    try:
        held = (int(cuda.max_memory_reserved(number)) for number in range(cuda.device_count()))
        return max(held, default=0)
    except RuntimeError:  # of a GPU that has failed
        return 0


def _cuda() -> Any:
    """PyTorch's part for GPUs, where this program has begun to use it. None: it has not."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda if cuda is not None and hasattr(cuda, "is_initialized") and cuda.is_initialized() else None


def _age_s() -> float | None:
    """Of this process, as the kernel counts it."""
    try:
        words = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        began_s = int(words[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began_s)
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    with contextlib.suppress(OverflowError):
        return float(value) if math.isfinite(value) else None
    return None


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
