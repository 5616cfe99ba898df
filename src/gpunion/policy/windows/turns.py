"""How long may a tenant stay while others wait?"""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.policy.windows.sizing import Sizing

# Of a turn this long a twentieth goes into coming and going.
TURN_OVERHEADS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBounds:
    """Of the campus: `[windows] turn`."""

    least_s: float = 600.0
    most_s: float = 3600.0

    def __post_init__(self) -> None:
        if not 0 < self.least_s <= self.most_s:
            raise ValueError(f"the shortest turn is not above the longest one: {self}")


def turn_s(sizing: Sizing, bounds: TurnBounds) -> float:
    """As long as coming and going are worth, within what the campus allows."""
    return min(bounds.most_s, max(bounds.least_s, TURN_OVERHEADS * sizing.overhead_s))


def is_over(began_s: float, turn_s: float, now_s: float) -> bool:
    return now_s >= began_s + turn_s
