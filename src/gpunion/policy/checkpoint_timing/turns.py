"""Who leaves a wanted machine first, and how long the others may go on working there.

A guest that saves for the last time stands still until it runs again elsewhere. So it should do that when
there is somewhere to go and the wire is free, and not before: one after another, each with the whole rate.
Whoever has no place yet works on until the last moment at which its own save, and those whose turn comes
after it, still fit the notice.

The latest moments are counted back from the end, `latest_i = usable - sum of needs from i on`, and nobody
may still be saving when the last seconds begin, in which programs are told to end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpunion.domain.ids import RunId

# Sending takes longer than worked out where others use the wire too, or the state has grown.
SLACK = 1.25
# Asking, answering and being told of the arrival; a turn is not planned closer than this.
WORDS_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaver:
    run_id: RunId
    stall_s: float
    ship_bytes: float
    worth: float  # of its unsaved work, per byte
    has_place: bool  # somewhere it could go on at once

    def needs_s(self, rate_bps: float) -> float:
        return WORDS_S + self.stall_s + SLACK * 8.0 * self.ship_bytes / max(rate_bps, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """`latest_s`: from now, when it must have begun."""

    run_id: RunId
    latest_s: float


def turns(
    leavers: Sequence[Leaver], *, usable_s: float, saved_by_s: float, rate_bps: float
) -> tuple[Leave, ...] | None:
    """In order: those with a place first, then the most work per byte. None: no time to take turns."""
    ordered = sorted(leavers, key=lambda one: (not one.has_place, -one.worth, one.run_id))
    found: list[Leave] = []
    for one in reversed(ordered):
        usable_s = min(usable_s - one.needs_s(rate_bps), saved_by_s - WORDS_S - one.stall_s)
        found.append(Leave(run_id=one.run_id, latest_s=usable_s))
    # Whoever is asked again at its very latest moment is not too late: the words' second is in it.
    return None if usable_s < -WORDS_S else tuple(reversed(found))
