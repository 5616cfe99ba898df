"""A machine's own clock: it runs a little fast or slow, and says another hour than its neighbour's."""

from __future__ import annotations


class Clock:
    """Local time = base + rate x true time. Never goes back while the machine is up."""

    def __init__(self, *, rate: float = 1.0, offset_s: float = 0.0) -> None:
        self.rate = rate
        self._true_base_s = 0.0
        self._local_base_s = offset_s

    def local(self, true_s: float) -> float:
        return self._local_base_s + (true_s - self._true_base_s) * self.rate

    def true(self, local_s: float) -> float:
        return self._true_base_s + (local_s - self._local_base_s) / self.rate

    def jump(self, true_s: float, by_s: float) -> None:
        """Only a reboot does this: the clocks that waits are measured with count from the boot."""
        self._local_base_s = self.local(true_s) + by_s
        self._true_base_s = true_s
