"""Does going home pay?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class WayHome:
    remaining_s: float  # of work, at reference speed
    speed_here: float
    speed_home: float
    downtime_s: float  # of one move


class Homecoming(Protocol):
    def gain_s(self, way: WayHome) -> float | None:
        """Seconds won by going home, or None where it does not pay."""
        ...


class WhenItPays:
    """`W (1/φ_here - 1/φ_home)` must exceed three downtimes: one to move, two against to and fro."""

    def gain_s(self, way: WayHome) -> float | None:
        won_s = way.remaining_s * (1 / way.speed_here - 1 / way.speed_home)
        return won_s - way.downtime_s if won_s > 3 * way.downtime_s else None


class Never:
    def gain_s(self, way: WayHome) -> float | None:
        return None
