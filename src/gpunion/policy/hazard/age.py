"""How long a node has been free matters beside the time of day.

An owner who took one GPU back a minute ago often wants the next one too, and a Google preemptible VM is lost
0.22 times an hour in its first hour but 0.01 times in hours 6 to 22. Ages are counted in classes that grow,
because the effect is steep at first and flat later.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from math import inf

AGE_FROM_S = (0.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 18_000.0, 36_000.0, 72_000.0)
AGES = len(AGE_FROM_S)
NO_AGE_EFFECT = (1.0,) * AGES


def age_class(age_s: float) -> int:
    return max(0, bisect_right(AGE_FROM_S, age_s) - 1)


def age_ends_s(age: int) -> float:
    """How old a node is when it passes into the next class."""
    return AGE_FROM_S[age + 1] if age + 1 < AGES else inf


def ages_of(from_s: float, to_s: float, free_since_s: float) -> Iterator[tuple[int, float, float]]:
    """The span cut where the node passes from one class of age to the next: (class, from, to)."""
    age = age_class(from_s - free_since_s)
    while from_s < to_s:
        ends_s = free_since_s + age_ends_s(age)
        until_s = min(to_s, ends_s)
        if until_s > from_s:
            yield age, from_s, until_s
            from_s = until_s
        age += 1
