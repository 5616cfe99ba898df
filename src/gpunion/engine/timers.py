"""Moments to wait for. Setting a timer again moves it; it fires once. Of two that are due at one moment the
one whose text comes first fires first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Generic

from gpunion.domain.protocol.effects import CancelTimer, SetTimer
from gpunion.domain.protocol.timers import AnyTimer, text_of


class Timers(Generic[AnyTimer]):
    def __init__(self, saved: Iterable[tuple[AnyTimer, float]] = ()) -> None:
        self._set: dict[str, tuple[AnyTimer, float]] = {}  # by their texts
        self._heap: list[tuple[float, str]] = []
        for timer, at_s in saved:
            self._put(timer, at_s)

    def __contains__(self, timer: AnyTimer) -> bool:
        return text_of(timer) in self._set

    def at(self, timer: AnyTimer) -> float | None:
        found = self._set.get(text_of(timer))
        return None if found is None else found[1]

    def items(self) -> tuple[tuple[AnyTimer, float], ...]:
        return tuple(self._set[text] for text in sorted(self._set))

    def apply(self, effects: Iterable[object]) -> None:
        for effect in effects:
            if type(effect) is SetTimer:
                self._put(effect.timer, effect.at_s)
            elif type(effect) is CancelTimer:
                self.fired(effect.timer)

    def fired(self, timer: AnyTimer) -> None:
        self._set.pop(text_of(timer), None)

    def next_s(self) -> float | None:
        first = self._first()
        return None if first is None else first[0]

    def due(self, now_s: float) -> AnyTimer | None:
        """The earliest whose time has come. It stays due until `fired` is told, after the commit."""
        first = self._first()
        return self._set[first[1]][0] if first is not None and first[0] <= now_s else None

    def _put(self, timer: AnyTimer, at_s: float) -> None:
        text = text_of(timer)
        self._set[text] = (timer, at_s)
        heapq.heappush(self._heap, (at_s, text))

    def _first(self) -> tuple[float, str] | None:
        """The earliest moment; those that were moved or cancelled are dropped on the way."""
        heap, known = self._heap, self._set
        while heap:
            first = heap[0]
            found = known.get(first[1])
            if found is not None and found[1] == first[0]:
                return first
            heapq.heappop(heap)
        return None
