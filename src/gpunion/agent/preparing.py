"""What runs that have not started yet wait for on this machine, for people to see."""

from __future__ import annotations

import threading

from gpunion.domain.frames import Preparing
from gpunion.domain.ids import RunId


class PreparingBoard:
    """Written to from any thread; read by every heartbeat."""

    def __init__(self) -> None:
        self._said: dict[RunId, Preparing] = {}
        self._lock = threading.Lock()

    def say(self, run_id: RunId, what: str, done: float | None = None) -> None:
        with self._lock:
            self._said[run_id] = Preparing(run_id=run_id, what=what, done=done)

    def clear(self, run_id: RunId) -> None:
        with self._lock:
            self._said.pop(run_id, None)

    def all(self) -> tuple[Preparing, ...]:
        with self._lock:
            return tuple(self._said.values())
