"""What reads an owner's calendar, here and for the CLI of a machine whose agent does not run."""

from __future__ import annotations

from gpunion.adapters.calendar.reader import CalendarReader
from gpunion.ports.calendar import Calendar


def calendar() -> Calendar:
    return CalendarReader()
