"""What many look at: worked out once, and shown to all for a moment."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Generic, TypeVar

T = TypeVar("T")


class Latest(Generic[T]):
    def __init__(self) -> None:
        self._found: T | None = None
        self._at_s = -inf

    def of(self, now_s: float, shown_for_s: float, work_out: Callable[[], T]) -> T:
        if self._found is None or now_s - self._at_s >= shown_for_s:
            self._found, self._at_s = work_out(), now_s
        return self._found
