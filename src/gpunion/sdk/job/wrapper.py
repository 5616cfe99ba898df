"""Runs a program that cannot be changed, and speaks to the agent in its place.

    python3 -m gpunion.sdk.job.wrapper [--signal NAME] [--command=WORD]... -- PROGRAM ARGUMENT...

Put in front of a job's command by `checkpoint.signal` and `checkpoint.command` of its job file. When a
checkpoint is wanted:

- with a command, that is run beside the program, in the same directory and environment. Status 0: what lies
  in GPUNION_CHECKPOINT_DIR is a whole checkpoint now.
- with a signal, the program gets it. Its checkpoint is whole when the directory has changed and then stood
  still for a while, or when the program ends with status 85, "saved, run me again".

After a last save the program is ended. How far it is, is told as seconds of work: it has no steps to count.
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
from collections.abc import Sequence
from pathlib import Path

from gpunion.sdk.job.folders import sync_tree
from gpunion.sdk.job.messages import SAVED_RUN_ME_AGAIN, Mailbox, Request, Saved, write

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
ANSWER_S = 120.0  # how long an agent waits for a last save that nobody set a deadline for
END_LIMIT_S = 3.0  # SIGTERM comes 5 s before the end: a program that has not gone by then is killed
WORKED_FILE = ".gpunion-seconds.json"


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
        self._began_s, self._worked_s = time.monotonic(), self._worked_before()
        self._told_s = float("-inf")
        self._longest_s = 0.0  # that a save took which came to something
        self._child = subprocess.Popen(list(program))
        signal.signal(signal.SIGTERM, lambda signum, frame: self._pass_on(signum))

    def run(self) -> int:
        while self._child.poll() is None:
            self._tell_how_far()
            request = self._mailbox.request()
            if request is not None and self._save(request):
                return SAVED_RUN_ME_AGAIN
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(LOOK_S)
        code = self._child.returncode
        if code == SAVED_RUN_ME_AGAIN:
            self._note_worked()
        return 128 - code if code < 0 else code

    def _save(self, request: Request) -> bool:
        """Whether that was the last one, and the program has ended."""
        began_s = time.monotonic()
        allowance = Allowance(self._mailbox, request, self._longest_s)
        trouble = self._run_command(allowance) if self._command else self._send_and_wait(allowance)
        if trouble or self._child.poll() is not None:
            if trouble:
                print(f"gpunion: the checkpoint was not saved: {trouble}", file=sys.stderr)
                self._mailbox.could_not(request, trouble)
            return False  # a program that has gone speaks for itself
        self._longest_s = max(self._longest_s, time.monotonic() - began_s)
        self._note_worked()
        sync_tree(self._folder)
        stall_s = time.monotonic() - began_s if self._command else 0.0
        saved = Saved(step=self._seconds(), progress=0.0, files=self._files(), stall_s=stall_s)
        self._mailbox.ask_again_soon()
        # A notice may have come meanwhile, with no time in it for another save that takes as long.
        request = self._mailbox.request() or request
        self._mailbox.answer(request, saved)
        if request.final:
            self._end()
        return request.final

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

    def _worked_before(self) -> float:
        try:
            return float(json.loads((self._folder / WORKED_FILE).read_bytes())["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            return 0.0

    def _note_worked(self) -> None:
        write(self._folder / WORKED_FILE, {"seconds": self._seconds()})

    def _tell_how_far(self) -> None:
        if self._mailbox.directory is not None and time.monotonic() >= self._told_s + 1.0:
            self._told_s = time.monotonic()
            with contextlib.suppress(OSError):
                message = {"step": self._seconds(), "total_steps": 0, "progress": 0.0}
                write(self._mailbox.directory / "progress.json", message)


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
