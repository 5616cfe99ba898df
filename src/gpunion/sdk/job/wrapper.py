"""Runs a program that cannot be changed, and speaks to the agent in its place.

    python3 -m gpunion.sdk.job.wrapper [--signal NAME] [--command=WORD]... -- PROGRAM ARGUMENT...

Put in front of a job's command by `checkpoint.signal` and `checkpoint.command` of its job file. When a
checkpoint is wanted:

- with a command, that is run beside the program, in the same directory and environment. Status 0: what lies
  in GPUNION_CHECKPOINT_DIR is a whole checkpoint now.
- with a signal, the program gets it. Its checkpoint is whole when the directory has changed and then stood
  still for a while, or when the program ends with status 85, "saved, run me again".

After a last save the program is ended. How far it is, is told as seconds of work, unless the program tells
its steps: what it writes into $GPUNION_CONTROL_DIR/progress.json stays. A save counts as the step that a
progress.json in it says, else as that at which the program was when it wrote what is saved. When that was,
the files themselves say. Where a command has made them anew, as `cp` without `-p` does, nobody knows how old
their content is, and that is told instead.
A save that hangs is given up in time: any other for the last one, and the last one before the machine has to
be free, so that what kept it can be told.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from gpunion.sdk.job.folders import sync_tree
from gpunion.sdk.job.messages import OURSELVES, SAVED_RUN_ME_AGAIN, Mailbox, Request, Saved, write
from gpunion.sdk.job.piece import WindowFile, runs_in_windows

LOOK_S = 0.05
# A program that writes its files one after the other pauses for less than this in between.
SETTLE_S = 2.0
# A last save is over with the notice; any other is given up, and training goes on, after so long.
SAVE_LIMIT_S = 600.0
# What is left of a notice when a last save is given up: SIGTERM comes 5 s before the end, and what is not
# saved by then could not be sent. Of a short notice not more than this part.
LAST_WORDS_S = 7.0
LAST_WORDS_SHARE = 0.25
# A save that was under way when the last one was asked for gets so much of the time left, or so many times
# what the longest took so far. If it hangs the rest is for another try.
IN_THE_WAY_SHARE = 0.5
LONGEST_TIMES = 1.5
# Of a window that is nearly over the agent speaks first. One that is silent for so long is dead or stopped,
# and a window may end all the same.
AGENT_SPEAKS_S = 1.5
TRY_AGAIN_S = 5.0  # after a save for the window's end that failed
WRAPPER_MARK = "from_outside"  # of progress.json, where the program has not written it
ANSWER_S = 120.0  # how long an agent waits for a last save that nobody set a deadline for
END_LIMIT_S = 3.0  # SIGTERM comes 5 s before the end: a program that has not gone by then is killed
WORKED_FILE = ".gpunion-seconds.json"
STEPS, SECONDS, UNKNOWN = "steps", "seconds", "unknown"  # what the step of a save is counted in
# A program that tells every step is heard 20 times a second: a quarter of an hour.
HEARD_MOST = 18_000


class OwnWords:
    """What the program itself says of its steps, and when it said so. What the wrapper writes in its place is
    marked."""

    def __init__(self, control_dir: Path | None) -> None:
        self._file = None if control_dir is None else control_dir / "progress.json"
        self._heard: deque[tuple[int, int]] = deque(maxlen=HEARD_MOST)  # when, which step

    @property
    def any(self) -> bool:
        return bool(self._heard)

    @property
    def step(self) -> int:
        return self._heard[-1][1] if self._heard else 0

    def listen(self) -> None:
        if self._file is None:
            return
        try:
            said_ns = self._file.stat().st_mtime_ns
        except OSError:
            return
        if self._heard and self._heard[-1][0] == said_ns:
            return
        step = _step_in(self._file)
        if step is not None and step >= self.step:
            self._heard.append((said_ns, step))

    def step_at(self, when_ns: int) -> int | None:
        """None: it was before anything that is remembered."""
        steps = [step for said_ns, step in self._heard if said_ns <= when_ns]
        return steps[-1] if steps else None

    def tell_in_its_place(self, step: int) -> None:
        if self._file is not None and not self.any:
            with contextlib.suppress(OSError):
                write(self._file, {"step": step, "total_steps": 0, "progress": 0.0, WRAPPER_MARK: True})


class Allowance:
    """How long a save may go on. It shrinks when a last save is wanted meanwhile."""

    def __init__(self, mailbox: Mailbox, request: Request, longest_s: float) -> None:
        self._mailbox, self._request = mailbox, request
        self._longest_s = longest_s
        self._began_s = time.monotonic()
        self._until_s = self._began_s + SAVE_LIMIT_S
        self._pressed = False  # a last save is wanted, and it is not this one
        if request.final and request.deadline is not None:
            self._until_s = min(self._until_s, self._began_s + _usable_s(request.deadline))

    def over(self) -> bool:
        newer = None if self._pressed else self._mailbox.request()
        if newer is not None and newer.final and newer.id != self._request.id:
            self._pressed = True
            now_s = time.monotonic()
            usable_s = ANSWER_S if newer.deadline is None else _usable_s(newer.deadline)
            usual_s = LONGEST_TIMES * self._longest_s - (now_s - self._began_s)
            allowed_s = min(usable_s, max(IN_THE_WAY_SHARE * usable_s, usual_s))
            self._until_s = min(self._until_s, now_s + allowed_s)
        return time.monotonic() >= self._until_s

    def in_words(self) -> str:
        waited_s = time.monotonic() - self._began_s
        why = ", since the last save is wanted" if self._pressed or self._request.final else ""
        return f"nothing was saved within {waited_s:.1f} s, so it was given up{why}"


def _usable_s(deadline: float) -> float:
    left_s = max(0.0, deadline - time.time())
    return left_s - min(LAST_WORDS_S, LAST_WORDS_SHARE * left_s)


class Wrapped:
    def __init__(self, program: Sequence[str], command: Sequence[str], signum: int | None) -> None:
        self._folder = Path(os.environ["GPUNION_CHECKPOINT_DIR"])
        self._command, self._signum = list(command), signum
        self._mailbox = Mailbox()
        self._own = OwnWords(self._mailbox.directory)
        before = self._before()
        self._began_s, self._worked_s = time.monotonic(), _number(before.get("seconds"))
        # Steps and seconds are not mixed: what the first save is counted in holds for all, on every machine.
        self._counts = str(before["counts"]) if before.get("counts") in (STEPS, SECONDS) else ""
        self._saved_step = int(_number(before.get("step")))
        self._told_s = float("-inf")
        self._longest_s = 0.0  # that a save took which came to something
        self._window = WindowFile(self._mailbox.directory if runs_in_windows() else None)
        self._again_s = float("-inf")
        self._child = subprocess.Popen(list(program))
        signal.signal(signal.SIGTERM, lambda signum, frame: self._pass_on(signum))

    def run(self) -> int:
        while self._child.poll() is None:
            self._tell_how_far()
            request = self._mailbox.request() or self._wanted_for_the_window()
            if request is not None and self._save(request):
                return SAVED_RUN_ME_AGAIN
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(LOOK_S)
        code = self._child.returncode
        if code == SAVED_RUN_ME_AGAIN:
            self._note(*self._at_save(began_ns=0))
        self._tell_how_far(now=True)
        return 128 - code if code < 0 else code

    def _wanted_for_the_window(self) -> Request | None:
        now_s = time.monotonic()
        until_s = self._window.saved_by_s(now_s, self._longest_s)
        if until_s is None or now_s < max(until_s, self._window.changed_s) + AGENT_SPEAKS_S:
            return None
        return OURSELVES if now_s >= self._again_s else None

    def _save(self, request: Request) -> bool:
        """Whether that was the last one, and the program has ended."""
        began_s, began_ns = time.monotonic(), time.time_ns()
        allowance = Allowance(self._mailbox, request, self._longest_s)
        trouble = self._run_command(allowance) if self._command else self._send_and_wait(allowance)
        if trouble or self._child.poll() is not None:
            if trouble:
                print(f"gpunion: the checkpoint was not saved: {trouble}", file=sys.stderr)
                if request == OURSELVES:
                    self._again_s = time.monotonic() + TRY_AGAIN_S
                else:
                    self._mailbox.could_not(request, trouble)
            return False  # a program that has gone speaks for itself
        self._longest_s = max(self._longest_s, time.monotonic() - began_s)
        step, counted = self._at_save(began_ns)
        self._note(step, counted)
        sync_tree(self._folder)
        stall_s = time.monotonic() - began_s if self._command else 0.0
        saved = Saved(step=step, progress=0.0, files=self._files(), stall_s=stall_s, counted=counted)
        self._mailbox.ask_again_soon()
        # A notice may have come meanwhile, with no time in it for another save that takes as long.
        request = self._mailbox.request() or request
        if request == OURSELVES:
            self._leave(step)
            return True
        self._mailbox.answer(request, saved)
        if request.final:
            self._end()
            self._tell_how_far(now=True)
        return request.final

    def _leave(self, step: int) -> None:
        """All that lies in the directory is sent, so the program writes nothing more; and what it said of its
        steps is not the step of what it saved."""
        self._child.kill()
        self._child.wait()
        if self._mailbox.directory is not None:
            message = {"step": step, "total_steps": 0, "progress": 0.0, WRAPPER_MARK: True}
            with contextlib.suppress(OSError):
                write(self._mailbox.directory / "progress.json", message)
        print("gpunion: its window ends and nobody asked: saved", file=sys.stderr, flush=True)

    def _run_command(self, allowance: Allowance) -> str:
        name = f"its checkpoint command {self._command[0]}"
        try:
            # In a session of its own, so that what it has started is ended with it.
            command = subprocess.Popen(self._command, start_new_session=True)
        except OSError as error:
            return f"{name} cannot be run: {error.strerror}{_mend(self._command[0], error)}"
        while not allowance.over():
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = command.wait(LOOK_S)
                return "" if code == 0 else f"{name} ended with status {code}"
            if self._child.poll() not in (None, SAVED_RUN_ME_AGAIN):
                break  # of a program that is over nobody needs a save, and its end is waited for
        with contextlib.suppress(OSError):
            os.killpg(command.pid, signal.SIGKILL)
        command.wait()
        return f"{name}: {allowance.in_words()}"

    def _send_and_wait(self, allowance: Allowance) -> str:
        before = self._look()
        self._pass_on(self._signum or signal.SIGUSR1)
        seen, seen_s = before, time.monotonic()
        while self._child.poll() is None and not allowance.over():
            now = self._look()
            if now != seen:
                seen, seen_s = now, time.monotonic()
            elif seen != before and time.monotonic() - seen_s >= SETTLE_S:
                return ""
            time.sleep(LOOK_S)
        return "" if self._child.poll() is not None else allowance.in_words()

    def _pass_on(self, signum: int) -> None:
        """The agent reaches every process that catches a signal of its own; the others get it from here."""
        own = signum in (signal.SIGTERM, signal.SIGUSR1) and _catches(self._child.pid, signum)
        if not own and self._child.poll() is None:
            self._child.send_signal(signum)

    def _end(self) -> None:
        self._child.terminate()
        try:
            self._child.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _look(self) -> list[tuple[str, int, int]]:
        return [(name, *_about(self._folder / name)) for name in self._files()]

    def _files(self) -> list[str]:
        found = (Path(folder, name) for folder, _, names in os.walk(self._folder) for name in names)
        return sorted(path.relative_to(self._folder).as_posix() for path in found)

    def _seconds(self) -> int:
        return int(self._worked_s + time.monotonic() - self._began_s)

    def _before(self) -> dict[str, object]:
        try:
            found = json.loads((self._folder / WORKED_FILE).read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _at_save(self, began_ns: int) -> tuple[int, str]:
        """How far it was when it wrote what is saved, and what that is counted in: what lies there may be
        older than the asking, as a command may copy what the program wrote minutes ago."""
        self._own.listen()
        speaks = self._own.any or _step_in(self._folder / "progress.json") is not None
        self._counts = self._counts or (STEPS if speaks else SECONDS)
        written_ns = max((mtime_ns for name, _, mtime_ns in self._look() if name != WORKED_FILE), default=0)
        said = _step_in(self._folder / "progress.json")
        if self._counts == STEPS and said is not None:
            return max(self._saved_step, said), STEPS
        # A command that keeps the dates of what it copies leaves none that are younger than itself.
        dated = written_ns > 0 and (not self._command or written_ns < began_ns)
        if self._counts == STEPS:
            at_save = self._own.step_at(written_ns) if dated else None
            step = max(self._saved_step, self._own.step if at_save is None else at_save)
            return step, UNKNOWN if at_save is None else STEPS
        age_s = max(0.0, time.time() - written_ns / 1e9) if written_ns else 0.0
        seconds = max(int(self._worked_s), self._seconds() - int(age_s))
        return seconds, SECONDS if dated else UNKNOWN

    def _note(self, step: int, counted: str) -> None:
        self._saved_step = max(self._saved_step, step)
        seconds = self._seconds() if self._counts == STEPS else step
        write(self._folder / WORKED_FILE, {"seconds": seconds, "step": step, "counts": self._counts})

    def _tell_how_far(self, *, now: bool = False) -> None:
        self._own.listen()
        if now or time.monotonic() >= self._told_s + 1.0:
            self._told_s = time.monotonic()
            self._own.tell_in_its_place(self._saved_step if self._counts == STEPS else self._seconds())


def _step_in(file: Path) -> int | None:
    """What a program, and not its wrapper, says there of its steps."""
    try:
        message = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(message, dict) or WRAPPER_MARK in message:
        return None
    step = message.get("step")
    return step if isinstance(step, int) and not isinstance(step, bool) and step >= 0 else None


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _mend(program: str, error: OSError) -> str:
    """A script is easily handed in without the leave to execute it."""
    lacks_it = isinstance(error, PermissionError) and os.path.isfile(program)
    return f"; chmod +x {program} lets it be" if lacks_it else ""


def _about(path: Path) -> tuple[int, int]:
    try:
        about = path.stat(follow_symlinks=False)
    except OSError:
        return (0, 0)
    return (about.st_size, about.st_mtime_ns)


def _catches(pid: int, signum: int) -> bool:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return False
    mask = next((line.split()[1] for line in lines if line.startswith("SigCgt:")), "0")
    return bool(int(mask, 16) >> (signum - 1) & 1)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="gpunion.sdk.job.wrapper")
    parser.add_argument("--signal", choices=sorted(signal.Signals.__members__))
    parser.add_argument("--command", action="append", default=[])
    parser.add_argument("program", nargs="+")
    asked = parser.parse_args(argv)
    signum = int(signal.Signals[asked.signal]) if asked.signal else None
    if "GPUNION_CHECKPOINT_DIR" not in os.environ:  # outside GPUnion it is the program alone
        os.execvp(asked.program[0], asked.program)
    try:
        return Wrapped(asked.program, asked.command, signum).run()
    except OSError as error:
        print(f"gpunion: cannot run {asked.program[0]!r}: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
