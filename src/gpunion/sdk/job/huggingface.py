"""A Hugging Face `Trainer` that is saved, moved and resumed.

    from gpunion.sdk.job import huggingface

    arguments = TrainingArguments(output_dir=huggingface.output_dir("out"), save_strategy="no", ...)
    trainer = Trainer(model, arguments, callbacks=[huggingface.callback()], ...)
    trainer.train(resume_from_checkpoint=huggingface.newest())

When a checkpoint is wanted the Trainer saves as it always does, under `output_dir`, which has to be the place
that `output_dir` names. After a last save the program ends with status 85. The two newest of these saves stay
there; those that the Trainer makes by its own strategy are yours to limit (`save_total_limit`).
"""

from __future__ import annotations

import importlib
import os
import shutil
import time
from pathlib import Path
from typing import Any

from gpunion.sdk.job.aside import StepsAside
from gpunion.sdk.job.folders import sync_tree
from gpunion.sdk.job.messages import OURSELVES, SAVED_RUN_ME_AGAIN, Mailbox, Request, Saved, share
from gpunion.sdk.job.piece import Piece
from gpunion.sdk.job.pytorch import together

PREFIX = "checkpoint-"


def output_dir(otherwise: str) -> str:
    """Where the Trainer has to write: the job's checkpoint directory; outside GPUnion what you say."""
    return os.environ.get("GPUNION_CHECKPOINT_DIR") or otherwise


def newest() -> str | None:
    """For `resume_from_checkpoint`: the save to go on from, None where the job is new."""
    root = os.environ.get("GPUNION_CHECKPOINT_DIR")
    if not root or os.environ.get("GPUNION_RESUME") != "1":
        return None
    steps = [path.name.removeprefix(PREFIX) for path in Path(root).glob(f"{PREFIX}*") if path.is_dir()]
    step = max((int(step) for step in steps if step.isdecimal()), default=None)
    return None if step is None else str(Path(root, f"{PREFIX}{step}"))


def callback() -> Any:
    """For the Trainer's `callbacks`."""
    transformers: Any = importlib.import_module("transformers")

    class Saving(transformers.TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self._answers = TrainerAnswers()

        def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            self._answers.begins(state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> Any:
            first = state.is_world_process_zero
            if first:
                self._answers.stepped(state.global_step, alone=args.world_size == 1)
            wanted = first and self._answers.wanted(state.global_step, state.max_steps)
            if together(every=1).agree(int(wanted)):  # all processes save, or none
                self._answers.by_strategy = control.should_save
                control.should_save = True
            return control

        def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            if state.is_world_process_zero:
                self._answers.saved(Path(args.output_dir), state.global_step, state.max_steps)

        def on_train_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            self._answers.ended(state.global_step, state.max_steps)

    return Saving()


class TrainerAnswers:
    """What the callback says to the agent; knows nothing of the Trainer but its folders."""

    def __init__(self) -> None:
        self._mailbox = Mailbox()
        self._aside = StepsAside(self._mailbox)
        self._piece = Piece(self._mailbox)
        self._request: Request | None = None
        self._asked_s = 0.0
        self.by_strategy = False  # the Trainer saves at this step anyway, for itself
        begun_with = newest()
        self._ours = [] if begun_with is None else [Path(begun_with)]

    def begins(self, step: int) -> None:
        self._piece.goes_on(step)

    def stepped(self, step: int, *, alone: bool) -> None:
        self._piece.done(step)
        if alone:
            with self._piece.standing_still():
                self._aside.between_steps()

    def wanted(self, step: int, total_steps: int) -> bool:
        self._mailbox.tell_progress(step, total_steps)
        self._request = self._request or self._mailbox.request(step) or self._piece.request(step)
        self._asked_s = time.monotonic()
        return self._request is not None

    def saved(self, folder: Path, step: int, total_steps: int) -> None:
        """SystemExit after a last save."""
        request, root = self._request, Path(os.environ.get("GPUNION_CHECKPOINT_DIR") or folder)
        if request is None:
            return  # one of the Trainer's own
        save = folder / f"{PREFIX}{step}"
        if not save.resolve().is_relative_to(root.resolve()):
            raise RuntimeError(f"{save} is not in {root}: set output_dir to huggingface.output_dir(...)")
        sync_tree(save)
        files = [path.relative_to(root).as_posix() for path in save.rglob("*") if path.is_file()]
        stall_s = time.monotonic() - self._asked_s
        self._piece.saved(stall_s)
        if request == OURSELVES:
            self._piece.leaves(step, total_steps)
            raise SystemExit(SAVED_RUN_ME_AGAIN)
        answer = Saved(step=step, progress=share(step, total_steps), files=sorted(files), stall_s=stall_s)
        self._mailbox.answer(request, answer)
        self._request = None
        if request.final:
            raise SystemExit(SAVED_RUN_ME_AGAIN)
        self._drop_all_but_two(save)
        self._piece.goes_on(step)

    def _drop_all_but_two(self, save: Path) -> None:
        """The one before may still be on its way to the vault."""
        if not self.by_strategy:
            self._ours = [one for one in self._ours if one != save] + [save]
        for older in self._ours[:-2]:
            shutil.rmtree(older, ignore_errors=True)
        self._ours = self._ours[-2:]

    def ended(self, step: int, total_steps: int) -> None:
        self._mailbox.tell_progress(step, total_steps, last=True)
        self._piece.tell()
