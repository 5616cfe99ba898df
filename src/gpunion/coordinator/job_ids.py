"""Ids that sort by age: 48 bits of milliseconds, then 80 bits of chance, in the 32 letters of ULID."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from gpunion.domain.ids import JobId

LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 26
CHANCE_BITS = 80


class JobNames:
    def __init__(self, now_s: Callable[[], float], chance: Callable[[int], int] = secrets.randbits) -> None:
        self._now_s = now_s
        self._chance = chance
        self._last = 0

    def next(self) -> JobId:
        """Later ones are greater, also within one millisecond."""
        number = (int(self._now_s() * 1000) << CHANCE_BITS) | self._chance(CHANCE_BITS)
        number = max(number, self._last + 1)
        self._last = number
        return JobId(f"job-{_spelt(number)}")


def _spelt(number: int) -> str:
    return "".join(LETTERS[number >> 5 * place & 31] for place in reversed(range(LENGTH)))
