"""Is the machine lent now by its owner's hours and appointments, until when, and from when again?"""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.policy.terms.busy import Span
from gpunion.policy.terms.civil import Zone, shown
from gpunion.policy.terms.hours import ALWAYS, LOOK_AHEAD_S, WeeklyHours


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """`changes_s`: when it will be the other way round; None: not within the days we look ahead."""

    lent: bool
    changes_s: float | None
    because: str = ""  # why it is not lent


@dataclass(frozen=True, slots=True)
class Times:
    """When an owner lends, in all: within the hours and outside the appointments."""

    zone: Zone
    hours: WeeklyHours = ALWAYS
    busy: tuple[Span, ...] = ()  # in order and apart from each other

    def forecast(self, now_s: float) -> Forecast:
        lent = self._lent(now_s)
        at_s = now_s
        while at_s < now_s + LOOK_AHEAD_S:
            change_s = self._next_s(at_s)
            if change_s is None:
                break
            if self._lent(change_s) is not lent:
                because = "" if lent else self._because(now_s, change_s)
                return Forecast(lent=lent, changes_s=change_s, because=because)
            at_s = change_s
        return Forecast(lent=lent, changes_s=None, because="" if lent else self._because(now_s, None))

    def _lent(self, at_s: float) -> bool:
        return self.hours.cover(at_s, self.zone) and not _in_one(at_s, self.busy)

    def _next_s(self, at_s: float) -> float | None:
        bounds = [bound for span in self.busy for bound in span if bound > at_s]
        of_hours_s = self.hours.next_change_s(at_s, self.zone)
        return min([*bounds, *([] if of_hours_s is None else [of_hours_s])], default=None)

    def _because(self, now_s: float, back_s: float | None) -> str:
        what = (
            "it is its owner's by their calendar"
            if _in_one(now_s, self.busy)
            else "it is not lent at this hour"
        )
        if back_s is None:
            return what
        return f"{what}, again from {shown(back_s, self.zone, now_s)}"


def _in_one(at_s: float, spans: tuple[Span, ...]) -> bool:
    return any(begin <= at_s < end for begin, end in spans)
