"""A Lightning `Trainer` that is saved, moved and resumed.

    from gpunion.sdk.job import lightning

    trainer = Trainer(max_steps=10_000, callbacks=[lightning.callback()], ...)
    trainer.fit(model, data, ckpt_path=lightning.newest())

When a checkpoint is wanted it is saved between two batches with `trainer.save_checkpoint`, by all processes
together. After a last save the program ends with status 85.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any

from gpunion.sdk.job.aside import StepsAside
from gpunion.sdk.job.folders import Folders
from gpunion.sdk.job.messages import OURSELVES, SAVED_RUN_ME_AGAIN, Mailbox, Request, Saved, share
from gpunion.sdk.job.piece import Piece

FILE = "lightning.ckpt"
PACKAGES = ("lightning.pytorch", "pytorch_lightning")  # one library under two names


def newest() -> str | None:
    """For `ckpt_path`: the save to go on from, None where the job is new."""
    root = os.environ.get("GPUNION_CHECKPOINT_DIR")
    if not root or os.environ.get("GPUNION_RESUME") != "1":
        return None
    folders = Folders(Path(root))
    step = folders.newest()
    return None if step is None else str(folders.path(step) / FILE)


def callback() -> Any:
    """For the Trainer's `callbacks`."""
    found: Any = _package()

    class Saving(found.Callback):  # type: ignore[misc]
        def __init__(self) -> None:
            self._answers = TrainerAnswers()

        def on_train_start(self, trainer: Any, *rest: Any) -> None:
            self._answers.begins(trainer)

        def on_train_batch_end(self, trainer: Any, *rest: Any, **named: Any) -> None:
            self._answers.between_batches(trainer)

        def on_train_end(self, trainer: Any, *rest: Any) -> None:
            self._answers.ended(trainer)

    return Saving()


class TrainerAnswers:
    """What the callback says to the agent; knows of the Trainer what it is given."""

    def __init__(self) -> None:
        root = os.environ.get("GPUNION_CHECKPOINT_DIR")
        self._folders = Folders(Path(root)) if root else None
        self._mailbox = Mailbox()
        self._aside = StepsAside(self._mailbox)
        self._piece = Piece(self._mailbox)

    def begins(self, trainer: Any) -> None:
        if trainer.is_global_zero:
            self._piece.goes_on(int(trainer.global_step))

    def between_batches(self, trainer: Any) -> None:
        """SystemExit after a last save."""
        step, total, request = int(trainer.global_step), int(trainer.max_steps), None
        if trainer.is_global_zero:
            self._piece.done(step)
        if trainer.world_size == 1:
            with self._piece.standing_still():
                self._aside.between_steps()
        if trainer.is_global_zero:
            request = self._mailbox.request(step) or self._piece.request(step)
            self._mailbox.tell_progress(step, max(0, total))
        request = trainer.strategy.broadcast(request)
        if request is None or self._folders is None:
            return
        try:
            with self._piece.standing_still():
                self._answer(trainer, self._folders, request, step, total)
        except Exception as trouble:
            if trainer.world_size > 1:
                raise  # the others wait for this one
            self._not_saved(self._folders, request, step, trouble)

    def ended(self, trainer: Any) -> None:
        if trainer.is_global_zero:
            step, total = int(trainer.global_step), int(trainer.max_steps)
            self._mailbox.tell_progress(step, max(0, total), last=True)
            self._piece.tell()

    def _answer(self, trainer: Any, folders: Folders, request: Request, step: int, total: int) -> None:
        began_s = time.monotonic()
        if trainer.is_global_zero:
            folders.open(step)
        trainer.strategy.barrier()
        trainer.save_checkpoint(folders.opened(step) / FILE)
        if trainer.is_global_zero:
            folders.close(step)
            stall_s, progress = time.monotonic() - began_s, share(step, total) if total > 0 else 0.0
            self._piece.saved(stall_s)
            if request == OURSELVES:
                self._piece.leaves(step, max(0, total))
            else:
                saved = Saved(step=step, progress=progress, files=folders.files(step), stall_s=stall_s)
                self._mailbox.answer(request, saved)
            if request == OURSELVES or not request.final:
                folders.drop_all_but_two()
        trainer.strategy.barrier()
        if request.final:
            raise SystemExit(SAVED_RUN_ME_AGAIN)

    def _not_saved(self, folders: Folders, request: Request, step: int, trouble: Exception) -> None:
        """Training on is worth more than ending here: the agent sees that no answer came."""
        folders.give_up(step)
        if request == OURSELVES:
            self._piece.could_not()
        else:
            self._mailbox.could_not(request, trouble)
        print(f"gpunion: the checkpoint at step {step} was not saved: {trouble}", file=sys.stderr)


def _package() -> Any:
    for name in PACKAGES:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ImportError("neither lightning nor pytorch_lightning is installed here")
