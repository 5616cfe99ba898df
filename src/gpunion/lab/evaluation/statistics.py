"""Means over seeds with their 95 % confidence intervals, and ratios that are paired seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

# Student's t, two-sided 95 %, by degrees of freedom; beyond the table the normal's.
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
NORMAL95 = 1.96


@dataclass(frozen=True, slots=True)
class Estimate:
    """`half` is half of the interval's width; None where one seed says nothing about the spread."""

    mean: float
    half: float | None

    def shown(self) -> dict[str, float | None]:
        return {"mean": self.mean, "ci95_half_width": self.half}


def estimate(values: Sequence[float]) -> Estimate:
    number = len(values)
    if number == 0:
        return Estimate(0.0, None)
    mean = sum(values) / number
    if number == 1:
        return Estimate(mean, None)
    deviation = sqrt(sum((value - mean) ** 2 for value in values) / (number - 1))
    t = T95[number - 2] if number - 2 < len(T95) else NORMAL95
    return Estimate(mean, t * deviation / sqrt(number))


def change(ours: Sequence[float], theirs: Sequence[float]) -> Estimate:
    """`ours / theirs - 1`, seed by seed: both met the same owners and the same work."""
    pairs = [(mine, other) for mine, other in zip(ours, theirs, strict=True) if other > 0]
    return estimate([mine / other - 1 for mine, other in pairs])
