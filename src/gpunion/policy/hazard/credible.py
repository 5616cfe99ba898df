"""How much higher than its mean a rate may well be, given how few departures it rests on."""

from __future__ import annotations

from math import sqrt

# The 80 % point of the normal distribution: admission wants to be wrong one time in five at most.
_UPPER_Z = 0.8416


def upper_ratio(evidence: float) -> float:
    """The 80 % quantile of a Gamma distribution over its mean (Wilson and Hilferty's cube), at least 1.

    With next to no evidence the distribution is so skewed that its quantile falls below its mean; a rate
    for admission must not.
    """
    root = 1.0 - 1.0 / (9.0 * evidence) + _UPPER_Z / (3.0 * sqrt(evidence))
    return max(1.0, root**3)
