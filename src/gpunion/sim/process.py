"""A modelled program: it makes steps, stands still to save, and ends. Where it stands is always known."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gpunion.domain.ids import CheckpointId
from gpunion.sim.kernel import Alarm, Kernel
from gpunion.sim.scenario import Program

SAVED_RUN_ME_AGAIN = 85
TERMINATED = 143
# A program that heeds SIGTERM is gone this soon.
TERM_TIDY_S = 0.3

Saved = Callable[[CheckpointId, int, float], None]  # id, step, seconds it stood still


class Process:
    def __init__(
        self,
        kernel: Kernel,
        program: Program,
        *,
        speed: float,
        step: int,
        on_saved: Saved,
        on_exit: Callable[[int], None],
    ) -> None:
        self.program = program
        self._kernel = kernel
        self._step_s = program.step_s / speed
        fails_at = program.fails_at_step
        self._last_step = program.steps if fails_at is None else min(fails_at, program.steps)
        self._done = float(step)
        self._since_s: float | None = None  # None: standing still
        self._on_saved = on_saved
        self._on_exit = on_exit
        self._end: Alarm | None = None
        self._end_s = 0.0
        self._capture: Alarm | None = None
        self._reach: Alarm | None = None  # a step at which it was asked to save
        self._asked: list[tuple[CheckpointId, bool, float, int]] = []
        self._seen: set[CheckpointId] = set()
        self._answers: dict[CheckpointId, tuple[int, float]] = {}
        self.capturing_s = 0.0
        self.alive = True
        self.frozen = False
        self._capture = kernel.after(program.boot_s, self._go)

    @property
    def step(self) -> int:
        return int(self._at() + 1e-9)

    @property
    def told(self) -> tuple[int, float]:
        """Step and progress, as far as it says."""
        return self.program.told(self.step), self.program.told_progress(self.step)

    def ask_to_save(
        self, checkpoint_id: CheckpointId, *, final: bool, slowness: float, at_step: int = 0
    ) -> None:
        """A request has a name: asking again for the same one finds the answer lying there."""
        if not self.alive or self.frozen or not self.program.answers_saves:
            return
        if checkpoint_id in self._seen:
            self._answer_again(checkpoint_id)
            return
        self._seen.add(checkpoint_id)
        at_step = self.program.told(at_step)  # means nothing to one that counts none
        # A request lies where the one before it lay: what is not answered yet is forgotten.
        if self._asked:
            self._asked = [asked for asked in self._asked if asked[3] <= self.step]
        self._asked.append((checkpoint_id, final, slowness, at_step))
        if self._capture is None:
            self._pause()
            self._go()

    def _answer_again(self, checkpoint_id: CheckpointId) -> None:
        answer = self._answers.get(checkpoint_id)
        if answer is not None:
            self._kernel.after(0.0, lambda: self._on_saved(checkpoint_id, *answer))

    def terminate(self) -> None:
        if self.alive and self.program.heeds_term:
            self._kernel.after(TERM_TIDY_S, lambda: self._exit(TERMINATED))

    def freeze(self) -> None:
        """Stands still where it is: neither a step nor a save goes on."""
        if self.alive and not self.frozen:
            self.frozen = True
            self._pause()
            if self._capture is not None:
                self._capture.cancel()

    def thaw(self) -> None:
        if self.alive and self.frozen:
            self.frozen = False
            self._go()  # a save that was under way was given up by whoever asked

    def kill(self) -> None:
        """Silent: whoever kills says so."""
        self._pause()
        self.alive = False
        if self._end is not None:
            self._end.cancel()
        if self._capture is not None:
            self._capture.cancel()

    def _go(self) -> None:
        self._capture = None
        if self._asked and self._asked[0][3] <= self.step:
            self._save_next()
            return
        self._since_s = self._kernel.now_s
        self._wait_for_the_end()
        if self._asked and self._asked[0][3] <= self._last_step:
            reach_s = (self._asked[0][3] - self._done) * self._step_s
            self._reach = self._kernel.after(max(0.0, reach_s), self._save_next)

    def _save_next(self) -> None:
        checkpoint_id, final, slowness, _ = self._asked.pop(0)
        self._pause()
        stall_s = self.program.capture_s * slowness
        self._capture = self._kernel.after(stall_s, partial(self._saved, checkpoint_id, final, stall_s))

    def _saved(self, checkpoint_id: CheckpointId, final: bool, stall_s: float) -> None:
        self.capturing_s += stall_s
        step = self.step
        self._answers[checkpoint_id] = (step, stall_s)
        self._on_saved(checkpoint_id, step, stall_s)
        if final and self.program.leaves_after_final:
            self._exit(SAVED_RUN_ME_AGAIN)
        elif self.alive:
            self._go()

    def _pause(self) -> None:
        if self._since_s is not None:
            self._done, self._since_s = self._at(), None
        if self._reach is not None:
            self._reach.cancel()

    def _at(self) -> float:
        if self._since_s is None:
            return self._done
        made = (self._kernel.now_s - self._since_s) / self._step_s
        return min(self._done + made, float(self._last_step))

    def _wait_for_the_end(self) -> None:
        """An alarm from before a save comes too early, looks, and waits again: once, however many saves."""
        assert self._since_s is not None
        left_s = (self._last_step - self._done) * self._step_s
        self._end_s = self._since_s + max(0.0, left_s)
        if self._end is None or not self._end.pending or self._end.at_s > self._end_s:
            if self._end is not None:
                self._end.cancel()
            self._end = self._kernel.at(self._end_s, self._may_finish)

    def _may_finish(self) -> None:
        if self._since_s is None:
            return  # it stands still; when it goes on it waits for its end again
        if self._kernel.now_s < self._end_s:
            self._wait_for_the_end()
            return
        self._done, self._since_s = float(self._last_step), None
        self._exit(self.program.exit_code)

    def _exit(self, code: int) -> None:
        if self.alive:
            self.kill()
            self._on_exit(code)
