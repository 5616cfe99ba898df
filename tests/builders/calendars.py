"""A calendar whose file has one appointment a line: the moments when it begins and ends; and a real file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

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


def an_appointment(calendar: Path, *, in_s: float, lasts_s: float) -> Path:
    """Its owner has one appointment, soon. Written under another name and renamed."""
    begins = datetime.now(UTC) + timedelta(seconds=in_s)
    at, until = (f"{one:%Y%m%dT%H%M%SZ}" for one in (begins, begins + timedelta(seconds=lasts_s)))
    event = (f"UID:{at}", f"DTSTAMP:{at}", f"DTSTART:{at}", f"DTEND:{until}", "SUMMARY:lecture")
    head = ("BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:test", "BEGIN:VEVENT")
    fresh = calendar.with_suffix(".new")
    fresh.write_text("\r\n".join((*head, *event, "END:VEVENT", "END:VCALENDAR", "")))
    fresh.rename(calendar)
    return calendar
