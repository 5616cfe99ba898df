"""Named moments. Setting a name again moves it; a moment fires once."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from gpunion.domain.effects import CancelTimer, SetTimer


class Timers:
    def __init__(self, saved: Iterable[tuple[str, float]] = ()) -> None:
        self._at_s: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        for key, at_s in saved:
            self._set(key, at_s)

    def __contains__(self, key: str) -> bool:
        return key in self._at_s

    def at(self, key: str) -> float | None:
        return self._at_s.get(key)

    def items(self) -> tuple[tuple[str, float], ...]:
        return tuple(sorted(self._at_s.items()))

    def apply(self, effects: Iterable[object]) -> None:
        for effect in effects:
            if isinstance(effect, SetTimer):
                self._set(effect.key, effect.at_s)
            elif isinstance(effect, CancelTimer):
                self._at_s.pop(effect.key, None)

    def fired(self, key: str) -> None:
        self._at_s.pop(key, None)

    def next_s(self) -> float | None:
        self._drop_moved()
        return self._heap[0][0] if self._heap else None

    def due(self, now_s: float) -> str | None:
        """The earliest name whose time has come. It stays due until `fired` is told, after the commit."""
        self._drop_moved()
        if self._heap and self._heap[0][0] <= now_s:
            return self._heap[0][1]
        return None

    def _set(self, key: str, at_s: float) -> None:
        self._at_s[key] = at_s
        heapq.heappush(self._heap, (at_s, key))

    def _drop_moved(self) -> None:
        while self._heap and self._at_s.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
