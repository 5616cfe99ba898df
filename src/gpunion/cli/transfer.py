"""Bytes on their way: a bar with amount and rate on a terminal, a line now and then elsewhere, or nothing."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from gpunion.cli.quantities import shown_duration, shown_size
from gpunion.cli.screen import Screen

WIDTH = 30
REDRAW_S = 0.1
LINE_EVERY_S = 15.0


class Transfer:
    def __init__(
        self, screen: Screen, total_bytes: int, what: str, *, quiet: bool = False, redraw_s: float = REDRAW_S
    ) -> None:
        self._screen = screen
        self._total = total_bytes
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
        if self._bar and not self._quiet:
            self._screen.err.write("\r\033[K")
            self._screen.err.flush()

    def advance(self, size_bytes: int) -> None:
        """Less than nothing where something has to go again."""
        self._done = max(0, self._done + size_bytes)
        now_s = time.monotonic()
        if not self._quiet and now_s - self._drawn_s >= self._every_s:
            self._drawn_s = now_s
            self._draw(now_s)

    def text(self, now_s: float) -> str:
        done, total = min(self._done, self._total), self._total
        rate = done / max(1e-3, now_s - self._began_s)
        left = f", about {shown_duration((total - done) / rate)} left" if rate else ""
        return f"{shown_size(done)} of {shown_size(total)} {self._what}, {shown_size(rate)}/s{left}"

    def _draw(self, now_s: float) -> None:
        if not self._bar:
            self._screen.note(self.text(now_s))
            return
        filled = WIDTH * min(self._done, self._total) // max(1, self._total)
        self._screen.err.write(f"\r\033[K[{'#' * filled}{'.' * (WIDTH - filled)}] {self.text(now_s)}")
        self._screen.err.flush()
