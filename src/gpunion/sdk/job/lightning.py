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
from gpunion.sdk.job.messages import SAVED_RUN_ME_AGAIN, Mailbox, Request, Saved, share

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
            root = os.environ.get("GPUNION_CHECKPOINT_DIR")
            self._folders = Folders(Path(root)) if root else None
            self._mailbox = Mailbox()
            self._aside = StepsAside(self._mailbox)

        def on_train_batch_end(self, trainer: Any, *rest: Any, **named: Any) -> None:
            step, total = int(trainer.global_step), int(trainer.max_steps)
            if trainer.world_size == 1:
                self._aside.between_steps()
            request = self._mailbox.request(step) if trainer.is_global_zero else None
            if trainer.is_global_zero:
                self._mailbox.tell_progress(step, max(0, total))
            request = trainer.strategy.broadcast(request)
            if request is None or self._folders is None:
                return
            try:
                self._answer(trainer, self._folders, request, step, total)
            except Exception as trouble:
                if trainer.world_size > 1:
                    raise  # the others wait for this one
                # Training on is worth more than ending here: the agent sees that no answer came.
                self._folders.give_up(step)
                self._mailbox.could_not(request, trouble)
                print(f"gpunion: the checkpoint at step {step} was not saved: {trouble}", file=sys.stderr)

        def on_train_end(self, trainer: Any, *rest: Any) -> None:
            if trainer.is_global_zero:
                step, total = int(trainer.global_step), int(trainer.max_steps)
                self._mailbox.tell_progress(step, max(0, total), last=True)

        def _answer(self, trainer: Any, folders: Folders, request: Request, step: int, total: int) -> None:
            began_s = time.monotonic()
            if trainer.is_global_zero:
                folders.open(step)
            trainer.strategy.barrier()
            trainer.save_checkpoint(folders.opened(step) / FILE)
            if trainer.is_global_zero:
                folders.close(step)
                stall_s, progress = time.monotonic() - began_s, share(step, total) if total > 0 else 0.0
                saved = Saved(step=step, progress=progress, files=folders.files(step), stall_s=stall_s)
                self._mailbox.answer(request, saved)
                if not request.final:
                    folders.drop_all_but_two()
            trainer.strategy.barrier()
            if request.final:
                raise SystemExit(SAVED_RUN_ME_AGAIN)

    return Saving()


def _package() -> Any:
    for name in PACKAGES:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise ImportError("neither lightning nor pytorch_lightning is installed here")
