"""A calendar whose file has one appointment a line: the moments when it begins and ends."""

from __future__ import annotations

from gpunion.policy.terms.busy import Appointment
from gpunion.ports.calendar import CalendarTrouble


class CalendarOfLines:
    def __init__(self) -> None:
        self.asked_s: list[tuple[float, float]] = []

    def appointments(self, text: str, since_s: float, until_s: float) -> tuple[Appointment, ...]:
        self.asked_s.append((since_s, until_s))
        try:
            pairs = [line.split() for line in text.splitlines()]
            found = [Appointment(begin_s=float(begin), end_s=float(end)) for begin, end in pairs]
        except ValueError:
            raise CalendarTrouble("it is not understood") from None
        return tuple(one for one in found if one.begin_s < until_s and one.end_s > since_s)
