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
            if type(effect) is SetTimer:
                self._set(effect.key, effect.at_s)
            elif type(effect) is CancelTimer:
                self._at_s.pop(effect.key, None)

    def fired(self, key: str) -> None:
        self._at_s.pop(key, None)

    def next_s(self) -> float | None:
        first = self._first()
        return None if first is None else first[0]

    def due(self, now_s: float) -> str | None:
        """The earliest name whose time has come. It stays due until `fired` is told, after the commit."""
        first = self._first()
        return first[1] if first is not None and first[0] <= now_s else None

    def _set(self, key: str, at_s: float) -> None:
        self._at_s[key] = at_s
        heapq.heappush(self._heap, (at_s, key))

    def _first(self) -> tuple[float, str] | None:
        """The earliest moment; those that were moved or cancelled are dropped on the way."""
        heap, at_s = self._heap, self._at_s
        while heap:
            first = heap[0]
            if at_s.get(first[1]) == first[0]:
                return first
            heapq.heappop(heap)
        return None
