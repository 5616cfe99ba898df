"""An owner has just taken one machine back: those who are guests on their other machines save sooner.

Groups come in bursts: in the public record of Helios's partitions another machine of the same group is wanted
within half an hour three to five times as often as at any other time. By Young's rule a rate so many times
higher asks for intervals shorter by its square root.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """`times`: how much likelier the others are to be next. One: owners do not know of each other."""

    times: float = 1.0

    @property
    def on(self) -> bool:
        return self.times > 1.0

    def due_s(self, *, now_s: float, saved_s: float, planned_s: float) -> float:
        """When to save next: never later than planned, never before now."""
        sooner_s = saved_s + (planned_s - saved_s) / sqrt(max(1.0, self.times))
        return min(planned_s, max(now_s, sooner_s))


BURSTS = Alarm(times=4.0)
