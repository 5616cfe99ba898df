"""Virtual time: an event heap in the order (time, sequence), so that a run never depends on chance."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class Alarm:
    """A callback that is due at a time. Cancelling it is cheap: the heap drops it when it comes up."""

    __slots__ = ("at_s", "callback")

    def __init__(self, at_s: float, callback: Callable[[], None]) -> None:
        self.at_s = at_s
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None

    @property
    def pending(self) -> bool:
        return self.callback is not None


class Kernel:
    """Runs callbacks at their time. `now_s` is true time: no machine of the world can read it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.events = 0
        self._sequence = 0
        self._heap: list[tuple[float, int, Alarm]] = []
        self._stopping = False

    def at(self, at_s: float, callback: Callable[[], None]) -> Alarm:
        """A time that has passed means: as soon as what is already due now is done."""
        if at_s < self.now_s:
            at_s = self.now_s
        alarm = Alarm(at_s, callback)
        self._sequence += 1
        heapq.heappush(self._heap, (at_s, self._sequence, alarm))
        return alarm

    def after(self, delay_s: float, callback: Callable[[], None]) -> Alarm:
        return self.at(self.now_s + delay_s, callback)

    def stop(self) -> None:
        """Nothing more is run after the callback that says so."""
        self._stopping = True

    def run(self, until_s: float) -> None:
        """Runs what is due up to `until_s`, or until somebody says `stop`."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= until_s:
            at_s, _, alarm = pop(heap)
            callback = alarm.callback
            if callback is not None:
                alarm.callback = None
                self.now_s = at_s
                self.events += 1
                callback()
                if self._stopping:
                    return
        self.now_s = max(self.now_s, until_s)
