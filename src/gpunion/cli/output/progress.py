"""How far long work is: a bar on a terminal, else a line now and then. On stderr, never in the answer."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from gpunion.cli.output.screen import STDERR, Screen, screen_width
from gpunion.cli.quantities import shown_duration

WIDTH = 30
NARROWEST = 5  # a shorter bar says nothing
REDRAW_S = 0.1
LINE_EVERY_S = 15.0


class Progress:
    def __init__(
        self, screen: Screen, total: int, what: str, *, quiet: bool = False, redraw_s: float = REDRAW_S
    ) -> None:
        self._screen = screen
        self._total = total
        self._what = what
        self._quiet = quiet
        self._done = 0
        self._began_s = time.monotonic()
        self._drawn_s = self._began_s
        self._bar = screen.err.isatty()
        self._every_s = redraw_s if self._bar else LINE_EVERY_S

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()

    def step(self) -> None:
        self.reach(self._done + 1)

    def reach(self, done: int) -> None:
        self._done = max(0, min(done, self._total))
        now_s = time.monotonic()
        if not self._quiet and now_s - self._drawn_s >= self._every_s:
            self._drawn_s = now_s
            self._draw(now_s)

    def interrupt(self, text: str) -> None:
        """Say something that stays."""
        self._clear()
        self._screen.note(text)

    def text(self, now_s: float) -> str:
        left_s = (now_s - self._began_s) / max(1, self._done) * (self._total - self._done)
        return f"{self._done}/{self._total} {self._what}, about {shown_duration(left_s)} left"

    def _draw(self, now_s: float) -> None:
        if not self._bar:
            self._screen.note(self.text(now_s))
            return
        self._screen.err.write(f"\r\033[K{self._line(now_s)}")
        self._screen.err.flush()

    def _line(self, now_s: float) -> str:
        """On one line of the screen, whatever its width: the rest of a longer one could not be taken back."""
        text, room = self.text(now_s), screen_width(STDERR) - 1
        width = min(WIDTH, room - len(text) - len("[] "))
        if width < NARROWEST:
            return text[: max(0, room)]
        filled = width * self._done // max(1, self._total)
        return f"[{'#' * filled}{'.' * (width - filled)}] {text}"

    def _clear(self) -> None:
        if self._bar and not self._quiet:
            self._screen.err.write("\r\033[K")
            self._screen.err.flush()
