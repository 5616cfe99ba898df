"""Is the machine lent now by its owner's hours and appointments, until when, and from when again?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gpunion.policy.terms.appointments import Appointment, Span, busy_spans
from gpunion.policy.terms.civil import Zone, shown
from gpunion.policy.terms.hours import ALWAYS, LOOK_AHEAD_S, WeeklyHours

ZoneOf = Callable[[str | None], Zone]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """`changes_s`: when it will be the other way round; None: not within the days we look ahead."""

    lent: bool
    changes_s: float | None
    because: str = ""  # why it is not lent


@dataclass(frozen=True, slots=True)
class Times:
    """When an owner lends, in all: within the hours and outside the appointments."""

    zone_of: ZoneOf
    hours: WeeklyHours = ALWAYS
    appointments: tuple[Appointment, ...] = ()
    _busy: list[tuple[float, list[Span]]] = field(default_factory=list, compare=False, repr=False)

    def forecast(self, now_s: float) -> Forecast:
        busy = self._busy_from(now_s)
        lent = self._lent(now_s, busy)
        at_s = now_s
        while at_s < now_s + LOOK_AHEAD_S:
            change_s = self._next_s(at_s, busy)
            if change_s is None:
                break
            if self._lent(change_s, busy) is not lent:
                because = "" if lent else self._because(now_s, change_s, busy)
                return Forecast(lent=lent, changes_s=change_s, because=because)
            at_s = change_s
        return Forecast(lent=lent, changes_s=None, because="" if lent else self._because(now_s, None, busy))

    def _lent(self, at_s: float, busy: list[Span]) -> bool:
        return self.hours.cover(at_s, self.zone_of(None)) and not _in_one(at_s, busy)

    def _next_s(self, at_s: float, busy: list[Span]) -> float | None:
        bounds = [bound for span in busy for bound in span if bound > at_s]
        of_hours_s = self.hours.next_change_s(at_s, self.zone_of(None))
        return min([*bounds, *([] if of_hours_s is None else [of_hours_s])], default=None)

    def _because(self, now_s: float, back_s: float | None, busy: list[Span]) -> str:
        what = (
            "it is its owner's by their calendar" if _in_one(now_s, busy) else "it is not lent at this hour"
        )
        if back_s is None:
            return what
        return f"{what}, again from {shown(back_s, self.zone_of(None))}"

    def _busy_from(self, now_s: float) -> list[Span]:
        """Spans of the days ahead, worked out once a day: a calendar may have thousands of events."""
        if not self._busy or not self._busy[0][0] <= now_s <= self._busy[0][0] + LOOK_AHEAD_S / 8:
            spans = busy_spans(self.appointments, self.zone_of, now_s, now_s + 1.25 * LOOK_AHEAD_S)
            self._busy[:] = [(now_s, spans)]
        return self._busy[0][1]


def _in_one(at_s: float, spans: list[Span]) -> bool:
    return any(begin <= at_s < end for begin, end in spans)
