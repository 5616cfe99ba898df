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

Where copying the state is quick and writing it is not, give `snapshot` in the place of `save`: it copies and
returns a function that writes the copy into a directory. That function runs in a thread while the loop goes
on (not for a last save: that one is waited for). `gpunion.sdk.job.pytorch` does this for PyTorch, with one
or several processes; `huggingface` and `lightning` beside it are callbacks for those trainers.

In any other language, speak the same files (paths are in the environment, JSON, written under another name
and renamed so that nobody sees a part):

- GPUNION_CHECKPOINT_DIR holds all that is needed to go on; when GPUNION_RESUME is 1, go on from there.
- $GPUNION_CONTROL_DIR/request.json {"id", "deadline", "reason", "final", "at_step"} asks for a checkpoint
  (SIGUSR1 comes with it, to programs that catch it). Where "at_step" is given, this is a member of a gang and
  the others save when they have completed so many steps: save then too, or at once when you are past it.
  Write the files, sync them, then make saved.json {"id", "step", "progress", "files", "stall_s"}: the
  request's id, completed steps, 0..1, paths relative to the checkpoint directory, and how long the work stood
  still for it. Leave those files alone until two saves later. If "final", exit with status 85. If you could
  not save, make not-saved.json {"id", "trouble"} with the reason: `gpunion why` shows it.
- notice.json {"reason", "deadline", "gpus", "planned"}: the owner wants the machine back by then (Unix time).
  SIGTERM comes 5 s before, SIGKILL at the deadline.
- progress.json {"step", "total_steps", "progress"} is yours to write, now and then, for people to look at.
- Where GPUNION_WINDOWS is 1 the job runs in windows. window.json {"ends", "hard", "save_s"} is there while
  its window has an end (Unix time), and is written anew when that changes. Save yourself as long before it as
  a save takes, at a step that GPUNION_SAFE_EVERY divides, tell the step in progress.json, and exit with 85.
  Write piece.json {"steps", "step_s", "step_sd_s", "worst_step_s", "begin_s", "save_s", "peak_bytes",
  "short_of_memory"} now and then, so that your next piece is cut to fit: how many steps were timed, their
  mean, deviation and longest, the time from your start to the first of them, your last save, and your memory
  on a GPU. GPUNION_GPU_MEMORY_BYTES, where it is set, is less than your job asked for: take no more of a GPU.
  `piece` does all this.
- With "steps_aside": true in it you say that you can give up your GPU for a while. aside.json {"id",
  "deadline"} then asks for it: write stepped-aside.json {"id"} when you begin, put what is on the GPU into
  host memory, write it again with "done": true (or with "trouble" and why not), and wait until aside.json is
  gone or has another id. Take everything back then, and delete stepped-aside.json. `aside` does this for
  PyTorch, between two steps.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from gpunion.sdk.job.aside import StepsAside
from gpunion.sdk.job.folders import Folders
from gpunion.sdk.job.messages import (
    OURSELVES,
    SAVED_RUN_ME_AGAIN,
    Mailbox,
    Notice,
    Request,
    Saved,
    share,
)
from gpunion.sdk.job.piece import Piece

__all__ = ["SAVED_RUN_ME_AGAIN", "Alone", "Notice", "Ranks", "Training", "notice"]

# What a rank is told between two steps.
GO_ON, SAVE, SAVE_AND_END = 0, 1, 2

Write = Callable[[Path], object]  # may return how long the loop had to wait for the copy, in seconds


class Ranks(Protocol):
    """Several processes that train together and save at the same step."""

    rank: int
    count: int
    every: int  # they ask each other at every so manieth step: asking costs each of them a moment

    def agree(self, word: int) -> int:
        """Called by all of them at the same step; all get the word of rank 0."""
        ...


class Alone:
    rank, count, every = 0, 1, 1

    def agree(self, word: int) -> int:
        return word


def notice() -> Notice | None:
    """The notice this machine's owner has given, if any."""
    return Mailbox().notice()


class Training:
    """See the module's documentation."""

    def __init__(
        self,
        *,
        total_steps: int,
        load: Callable[[Path], object],
        save: Callable[[Path], object] | None = None,
        snapshot: Callable[[], Write] | None = None,
        ranks: Ranks | None = None,
        copies_to_host: bool = False,
    ) -> None:
        """`copies_to_host`: what `snapshot` copies is in host memory when its function begins to write."""
        if (save is None) == (snapshot is None):
            raise ValueError("give either `save` or `snapshot`")
        directory = os.environ.get("GPUNION_CHECKPOINT_DIR")
        self.total_steps = total_steps
        self.stalled_s = 0.0  # all that saving has cost the loop so far
        self._load, self._save, self._snapshot = load, save, snapshot
        self._ranks: Ranks = ranks or Alone()
        self._copies_to_host = copies_to_host
        self._resume = os.environ.get("GPUNION_RESUME") == "1"
        self._folders = Folders(Path(directory)) if directory else None
        self._mailbox = Mailbox()
        self._piece = Piece(self._mailbox, tells=self._ranks.rank == 0)
        # Several processes would have to do it all at once: they are moved by the driver.
        self._aside = StepsAside(self._mailbox) if self._ranks.count == 1 else None
        self._writing: threading.Thread | None = None
        self._write_trouble: BaseException | None = None

    def steps(self) -> Iterator[int]:
        """The steps still to do. Between two of them the state is whole, and is saved when that is wanted."""
        step = self._first_step()
        while step < self.total_steps:
            if self._aside is not None and not self._writes_from_the_gpu():
                self._aside.between_steps()
            if self._ranks.rank == 0:
                self._mailbox.tell_progress(step, self.total_steps)
            if step % self._ranks.every == 0:
                self._answer_request(step)
            self._piece.goes_on(step)
            yield step
            step += 1
            self._piece.done(step)
        self._finish_writing()
        self._piece.tell()
        if self._ranks.rank == 0:
            self._mailbox.tell_progress(step, self.total_steps, last=True)

    def _writes_from_the_gpu(self) -> bool:
        """A thread that still writes a copy may be reading tensors on the GPU."""
        return self._writing is not None and self._writing.is_alive() and not self._copies_to_host

    def _first_step(self) -> int:
        if self._folders is None or not self._resume:
            return 0
        newest = self._folders.newest()
        first = self._ranks.agree(-1 if newest is None else newest)
        if first < 0:
            return 0
        self._load(self._folders.path(first))
        self._folders.trust(first)
        return first

    def _answer_request(self, step: int) -> None:
        folders = self._folders
        if folders is None:
            return
        request = self._wanted(step) if self._ranks.rank == 0 else None
        busy = self._writing is not None and self._writing.is_alive()
        if request is not None and busy and not request.final:
            self._mailbox.ask_again_soon()  # one at a time; the disk would not be faster with two
            request = None
        if request is not None:
            self._finish_writing()
            if not self._opened(folders, step, request):  # before the others hear of it: they write into it
                request = None
        word = GO_ON if request is None else (SAVE_AND_END if request.final else SAVE)
        word = self._ranks.agree(word)
        if word == GO_ON:
            return
        self._keep(folders, step, request, wait=word == SAVE_AND_END or self._snapshot is None)
        if word == SAVE_AND_END and self._write_trouble is None:
            self._ranks.agree(word)  # nobody leaves while another still writes: its end would end them all
            raise SystemExit(SAVED_RUN_ME_AGAIN)

    def _wanted(self, step: int) -> Request | None:
        return self._mailbox.request(step) or self._piece.request(step, self._ranks.every)

    def _opened(self, folders: Folders, step: int, request: Request) -> bool:
        try:
            if not folders.has(step):
                folders.open(step)
        except OSError as trouble:
            self._not_saved(folders, step, request, trouble)
            return False
        return True

    def _keep(self, folders: Folders, step: int, request: Request | None, *, wait: bool) -> None:
        began_s = time.monotonic()
        try:
            write = self._save if self._snapshot is None else self._snapshot()
        except Exception as trouble:  # of memory, as a rule
            self._not_saved(folders, step, request, trouble)
            return
        assert write is not None
        stalled_s = time.monotonic() - began_s

        def put_down() -> None:
            self._write(folders, step, request, write, began_s, stalled_s, stands_still=wait)

        self._write_trouble = None
        if not wait:
            self._writing = threading.Thread(target=put_down, name="gpunion-save")
            self._writing.start()
            self.stalled_s += stalled_s
            return
        put_down()
        self.stalled_s += time.monotonic() - began_s

    def _write(
        self,
        folders: Folders,
        step: int,
        request: Request | None,
        write: Write,
        asked_s: float,
        stalled_s: float,
        *,
        stands_still: bool,
    ) -> None:
        """In the loop's own thread, which stands still, or beside it."""
        try:
            if not folders.has(step):
                behind = write(folders.opened(step))
                stalled_s = max(stalled_s, behind if isinstance(behind, float) else 0.0)
                if self._ranks.rank != 0:
                    folders.part_is_done(step, self._ranks.rank)
                    return
                folders.close(step, self._ranks.count)
            self._piece.saved(time.monotonic() - asked_s)
            if request == OURSELVES:
                self._piece.leaves(step, self.total_steps)
            elif request is not None:
                waited_s = time.monotonic() - asked_s if stands_still else stalled_s
                self._mailbox.answer(request, self._saved(folders, step, waited_s))
        except Exception as trouble:
            self._not_saved(folders, step, request, trouble)
            return
        if request == OURSELVES or (request is not None and not request.final):
            folders.drop_all_but_two()  # of the first, all that is there is sent

    def _not_saved(self, folders: Folders, step: int, request: Request | None, trouble: Exception) -> None:
        """Training on is worth more than ending here: the agent is told, or sees that no answer came."""
        self._write_trouble = trouble
        if self._ranks.rank == 0:
            folders.give_up(step)
        if request == OURSELVES:
            self._piece.could_not()
        elif request is not None:
            self._mailbox.could_not(request, trouble)
        print(f"gpunion: the checkpoint at step {step} was not saved: {trouble}", file=sys.stderr)

    def _saved(self, folders: Folders, step: int, stall_s: float) -> Saved:
        progress = share(step, self.total_steps)
        return Saved(step=step, progress=progress, files=folders.files(step), stall_s=stall_s)

    def _finish_writing(self) -> None:
        if self._writing is not None:
            self._writing.join()
            self._writing = None
