"""What runs that have not started yet wait for on this machine, for people to see."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from gpunion.domain.ids import RunId
from gpunion.domain.protocol.frames import Preparing


class PreparingBoard:
    """Written to from any thread; read by every heartbeat."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._said: dict[RunId, tuple[float, Preparing]] = {}
        self._lock = threading.Lock()
        self._now_s = now_s

    def say(self, run_id: RunId, what: str, done: float | None = None, *, lasts_s: float = math.inf) -> None:
        """What is not said again within `lasts_s` is not true any more: nothing moves there."""
        with self._lock:
            words = Preparing(run_id=run_id, what=what, done=done)
            self._said[run_id] = (self._now_s() + lasts_s, words)

    def clear(self, run_id: RunId) -> None:
        with self._lock:
            self._said.pop(run_id, None)

    def all(self) -> tuple[Preparing, ...]:
        with self._lock:
            return tuple(words for until_s, words in self._said.values() if self._now_s() < until_s)
