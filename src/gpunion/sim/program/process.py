"""A modelled program: it makes steps, stands still to save, and ends. Where it stands is always known."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gpunion.domain.ids import CheckpointId
from gpunion.domain.jobs.profile import Seen
from gpunion.sim.kernel import Alarm, Kernel
from gpunion.sim.scenario.values import Program

SAVED_RUN_ME_AGAIN = 85
# It was out of memory on its GPU, and said so.
DOES_NOT_FIT = 86
TERMINATED = 143
# A program that heeds SIGTERM is gone this soon.
TERM_TIDY_S = 0.3
# So long before what its last save takes it stops, when its window ends.
WINDOW_GUARD_S = 1.0

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
        pace: float = 1.0,
        gpu_bytes: int | None = None,
    ) -> None:
        """`pace`: what its steps take in this run, over what they usually do. `gpu_bytes`: the memory of the
        smallest of its GPUs; None: whatever it needs."""
        self.program = program
        self._kernel = kernel
        self._step_s = pace * program.step_s / speed
        self._began_at = step
        fails_at, self._fits_until = program.fails_at_step, None
        if gpu_bytes is not None and program.memory:
            self._fits_until = program.fits_until(gpu_bytes, step)
        if self._fits_until is not None and (fails_at is None or self._fits_until < fails_at):
            fails_at = max(step, self._fits_until)
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
        self._last_stall_s: float | None = None
        self._saves = 0
        self._window: Alarm | None = None  # when it stops for its window's end
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

    def window(self, ends_s: float | None, slowness: float = 1.0) -> None:
        """By when it has to be saved, in true time; None: as long as it likes. It stops by itself."""
        if self._window is not None:
            self._window.cancel()
            self._window = None
        if ends_s is None or not self.alive or not self.program.heeds_windows:
            return
        stops_s = ends_s - self._stall_s(slowness) - WINDOW_GUARD_S
        self._window = self._kernel.at(
            max(self._kernel.now_s, stops_s), partial(self._stop_for_the_window, slowness)
        )

    def seen(self) -> Seen:
        """Of this run so far, at the speed that it has."""
        steps, noise = self.step - self._began_at, self.program.noise
        tells = self.program.tells_steps
        return Seen(
            steps=steps if tells else int(steps * self._step_s),
            step_s=(self.program.tells_step_s or self._step_s) if tells else 1.0,
            step_sd_s=noise * self._step_s if tells else 0.0,
            worst_step_s=(1 + 3 * noise) * self._step_s if tells else 1.0,
            begin_s=self.program.boot_s,
            save_s=self._last_stall_s,
            peak_bytes=self.program.tells_memory_bytes
            or self.program.memory_bytes(self.step, self._began_at),
            short_of_memory=self._out_of_memory(),
        )

    def _peak_bytes(self) -> int:
        return self.program.tells_memory_bytes or self.program.memory_bytes(self.step, self._began_at)

    def _out_of_memory(self) -> bool:
        return self._fits_until is not None and self.step >= self._last_step

    def _stop_for_the_window(self, slowness: float) -> None:
        self._window = None
        if not self.alive or self.frozen or self._capture is not None:
            return  # it is coming up, or saving: whoever asked for that ends it
        self._pause()
        stall_s = self._stall_s(slowness)
        self._capture = self._kernel.after(stall_s, partial(self._saved_for_the_window, stall_s))

    def _saved_for_the_window(self, stall_s: float) -> None:
        self.capturing_s += stall_s
        self._last_stall_s = stall_s
        self._exit(SAVED_RUN_ME_AGAIN)

    def _stall_s(self, slowness: float) -> float:
        return self.program.capture_s * slowness * (1 + self.program.save_growth * self._saves)

    def _answer_again(self, checkpoint_id: CheckpointId) -> None:
        answer = self._answers.get(checkpoint_id)
        if answer is not None:
            self._kernel.after(0.0, lambda: self._on_saved(checkpoint_id, *answer))

    def terminate(self) -> None:
        if self.alive and self.program.heeds_term:
            self._kernel.after(TERM_TIDY_S, lambda: self._exit(TERMINATED))

    def keep_and_end(self) -> None:
        """Told again, or while it stands still: it ends once, when it can."""
        if self.alive:
            self._kernel.after(TERM_TIDY_S, lambda: None if self.frozen else self._exit(0))

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
        for alarm in (self._capture, self._window):
            if alarm is not None:
                alarm.cancel()

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
        stall_s = self._stall_s(slowness) + self.program.answers_after_s
        self._saves += 1
        self._capture = self._kernel.after(stall_s, partial(self._saved, checkpoint_id, final, stall_s))

    def _saved(self, checkpoint_id: CheckpointId, final: bool, stall_s: float) -> None:
        self.capturing_s += stall_s
        self._last_stall_s = stall_s
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
        self._exit(DOES_NOT_FIT if self._out_of_memory() else self.program.exit_code)

    def _exit(self, code: int) -> None:
        if self.alive:
            self.kill()
            self._on_exit(code)
