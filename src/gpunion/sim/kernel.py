"""Virtual time: an event heap in the order (time, sequence), so that a run never depends on chance."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from math import inf

# The fence moves on by this much of virtual time: seldom, and not over two months of submissions at once.
STRETCH_S = 6 * 3600.0


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


_Due = tuple[float, int, Alarm]


class Kernel:
    """Runs callbacks at their time. `now_s` is true time: no machine of the world can read it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.events = 0
        self._sequence = 0
        self._heap: list[_Due] = []  # up to the fence; a small heap is a quick one
        self._later: list[_Due] = []  # and all beyond it, in any order
        self._fence_s = -inf
        self._stopping = False

    def at(self, at_s: float, callback: Callable[[], None]) -> Alarm:
        """A time that has passed means: as soon as what is already due now is done."""
        if at_s < self.now_s:
            at_s = self.now_s
        alarm = Alarm(at_s, callback)
        self._sequence += 1
        if at_s <= self._fence_s:
            heapq.heappush(self._heap, (at_s, self._sequence, alarm))
        else:
            self._later.append((at_s, self._sequence, alarm))
        return alarm

    def after(self, delay_s: float, callback: Callable[[], None]) -> Alarm:
        return self.at(self.now_s + delay_s, callback)

    def stop(self) -> None:
        """Nothing more is run after the callback that says so."""
        self._stopping = True

    def run(self, until_s: float) -> None:
        """Runs what is due up to `until_s`, or until somebody says `stop`."""
        heap, pop = self._heap, heapq.heappop
        while heap or self._move_the_fence():
            if heap[0][0] > until_s:
                break
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

    def _move_the_fence(self) -> bool:
        """Everything up to the fence is done. False: and nothing is left beyond it."""
        self._later = [due for due in self._later if due[2].callback is not None]
        if not self._later:
            return False
        self._fence_s = fence_s = min(self._later)[0] + STRETCH_S
        self._heap.extend(due for due in self._later if due[0] <= fence_s)
        heapq.heapify(self._heap)
        self._later = [due for due in self._later if due[0] > fence_s]
        return True
