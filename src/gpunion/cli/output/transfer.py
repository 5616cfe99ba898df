"""Bytes on their way: progress told as amount and rate."""

from __future__ import annotations

from gpunion.cli.output.progress import Progress
from gpunion.cli.quantities import shown_duration, shown_size


class Transfer(Progress):
    def advance(self, size_bytes: int) -> None:
        """Less than nothing where something has to go again."""
        self.reach(self._done + size_bytes)

    def text(self, now_s: float) -> str:
        rate = self._done / max(1e-3, now_s - self._began_s)
        left = f", about {shown_duration((self._total - self._done) / rate)} left" if rate else ""
        amount = f"{shown_size(self._done)} of {shown_size(self._total)} {self._what}"
        return f"{amount}, {shown_size(rate)}/s{left}"
