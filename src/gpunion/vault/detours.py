"""Places that would not take a save lately: others are tried before them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

# Room comes with people or with a collection, neither of which takes less.
AVOID_S = 300.0


class Detours:
    """From any thread."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()
        self._avoided: dict[str, tuple[float, str]] = {}  # until when, and why

    def avoid(self, place: str, why: str) -> None:
        with self._lock:
            self._avoided[place] = (self._now_s() + AVOID_S, why)

    def passed_over(self, place: str, fault: Exception) -> None:
        """By a run that goes on with the others of its places."""
        self.avoid(place, str(fault))

    def in_order(self, places: tuple[str, ...]) -> tuple[str, ...]:
        """As they are to be tried: those that lately took nothing come last."""
        with self._lock:
            self._forget_the_old()
            return tuple(sorted(places, key=lambda place: place in self._avoided))

    def why(self, places: tuple[str, ...]) -> str:
        """Of those that are avoided."""
        with self._lock:
            self._forget_the_old()
            known = {place: self._avoided[place][1] for place in places if place in self._avoided}
        return "; ".join(f"{place}: {why}" for place, why in known.items())

    def why_not_first(self, places: tuple[str, ...]) -> str:
        """Why a save does not go into the first of its places; nothing where it does."""
        order = self.in_order(places)
        return self.why(places[: places.index(order[0])]) if order else ""

    def _forget_the_old(self) -> None:
        now_s = self._now_s()
        self._avoided = {place: found for place, found in self._avoided.items() if found[0] > now_s}
