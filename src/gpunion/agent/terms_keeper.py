"""Keeps the owner's terms: the file, what of it is in force, and the last that could be read.

A file that cannot be read, or says something impossible, changes nothing: the terms in force stay, and the
owner is told. The same holds for the calendar. Both are copied when they were good, so that this is also true
of an agent that starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpunion.agent.terms_file import (
    TERMS_FILE,
    TermsTrouble,
    changed,
    parse_terms,
    read_terms,
    written,
)
from gpunion.agent.wall_time import zone_named, zone_of_terms
from gpunion.agent.writing import write_whole
from gpunion.domain.terms import OwnersTerms
from gpunion.policy.terms.appointments import Appointment
from gpunion.policy.terms.civil import Zone
from gpunion.policy.terms.forecast import Times
from gpunion.policy.terms.hours import parse_hours
from gpunion.policy.terms.icalendar import CalendarTrouble, read_calendar

GOOD_TERMS, GOOD_CALENDAR = "terms.good.toml", "calendar.good.ics"
CALENDAR_LIMIT_BYTES = 8 * 1024**2

Mark = tuple[int, int, int] | None  # of a file: when written, how long, which


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Terms as an agent finds them when it starts. `trouble`: why they are older ones."""

    terms: OwnersTerms
    trouble: str = ""


def find_terms(state_dir: Path, otherwise: OwnersTerms) -> Found:
    """`otherwise`: where the owner has never written any. TermsTrouble: they are bad and there is no copy."""
    path = state_dir / TERMS_FILE
    if not path.exists():
        return Found(terms=otherwise)
    try:
        return Found(terms=read_terms(path))
    except TermsTrouble as trouble:
        try:
            return Found(terms=read_terms(state_dir / "agent" / GOOD_TERMS), trouble=str(trouble))
        except TermsTrouble:
            raise TermsTrouble(f"{path}: {trouble}. Next: mend it, or remove it") from trouble


class TermsKeeper:
    def __init__(self, state_dir: Path, found: Found) -> None:
        self.terms = found.terms
        self.trouble = found.trouble  # why the file is not what is in force
        self.calendar_trouble = ""  # why the calendar is an older one
        self.path = state_dir / TERMS_FILE
        self._kept = state_dir / "agent"
        self._mark = _mark(self.path)
        self._calendar_mark: Mark = None
        self.times = self._times(self._calendar_at_start())

    def look(self) -> OwnersTerms | None:
        """New terms where somebody has written the file; they are not in force before `take`. Blocks."""
        self._look_at_calendar()
        mark = _mark(self.path)
        if mark == self._mark:
            return None
        self._mark = mark
        if mark is None:
            self.trouble = f"{self.path} is gone; the terms it had stay in force"
            return None
        try:
            found = read_terms(self.path)
            self.read_calendar_of(found)
        except TermsTrouble as trouble:
            self.trouble = str(trouble)
            return None
        self.trouble = ""
        return None if found == self.terms else found

    def with_changes(self, changes: Mapping[str, Any]) -> OwnersTerms:
        """TermsTrouble says why not. Nothing is in force yet."""
        terms = changed(self.terms, changes)
        self.read_calendar_of(terms)
        return terms

    def with_text(self, text: str) -> OwnersTerms:
        terms = parse_terms(text)
        self.read_calendar_of(terms)
        return terms

    def write(self, terms: OwnersTerms, text: str | None = None) -> None:
        """Before they are in force. TermsTrouble: the disk does not take them. Blocks."""
        try:
            write_whole(self.path, written(terms) if text is None else text)
        except OSError as error:
            raise TermsTrouble(f"{self.path} cannot be written: {error.strerror}") from error
        self._mark, self.trouble = _mark(self.path), ""

    def take(self, terms: OwnersTerms) -> None:
        """They are in force from here on. Blocks."""
        appointments = self.times.appointments
        if terms.house.calendar != self.terms.house.calendar:
            self._calendar_mark, self.calendar_trouble = _mark(Path(terms.house.calendar)), ""
            appointments = self.read_calendar_of(terms)
        self.terms = terms
        self._keep(GOOD_TERMS, written(terms))
        self.times = self._times(appointments)

    def read_calendar_of(self, terms: OwnersTerms) -> tuple[Appointment, ...]:
        """TermsTrouble says why not. A calendar that is in force already may be unreadable for a while."""
        if not terms.house.calendar:
            return ()
        try:
            return read_calendar(_text(Path(terms.house.calendar)), zone_named)
        except (OSError, UnicodeDecodeError, CalendarTrouble) as trouble:
            if terms.house.calendar == self.terms.house.calendar:
                return self.times.appointments
            raise TermsTrouble(f"calendar: {terms.house.calendar}: {_said(trouble)}") from trouble

    def calendar_problem(self) -> str:
        """Why the calendar cannot be read right now; empty where it can, or there is none. Blocks."""
        if self.terms.house.calendar and not self.calendar_trouble:
            self._calendar_mark = None
            self._look_at_calendar()
        return self.calendar_trouble

    def _look_at_calendar(self) -> None:
        path = self.terms.house.calendar
        mark = _mark(Path(path)) if path else None
        if not path or (mark == self._calendar_mark and mark is not None):
            return
        self._calendar_mark = mark
        try:
            text = _text(Path(path))
            appointments = read_calendar(text, zone_named)
        except (OSError, UnicodeDecodeError, CalendarTrouble) as trouble:
            self.calendar_trouble = f"{path}: {_said(trouble)}; its last good copy counts"
            return
        self.calendar_trouble = ""
        self._keep(GOOD_CALENDAR, text)
        self.times = self._times(appointments)

    def _calendar_at_start(self) -> tuple[Appointment, ...]:
        """The last good copy; the first look finds what is there now."""
        path = self.terms.house.calendar
        if not path:
            return ()
        for place in (Path(path), self._kept / GOOD_CALENDAR):
            try:
                return read_calendar(_text(place), zone_named)
            except (OSError, UnicodeDecodeError, CalendarTrouble):
                continue
        self.calendar_trouble = f"{path}: it cannot be read and there is no copy; it is as if it were empty"
        return ()

    def _times(self, appointments: tuple[Appointment, ...]) -> Times:
        house = self.terms.house
        own = zone_of_terms(house.timezone)

        def zone_of(name: str | None) -> Zone:
            named = zone_named(name) if name else None
            return own if named is None else named

        return Times(zone_of, parse_hours(house.hours), appointments)

    def _keep(self, name: str, text: str) -> None:
        try:
            self._kept.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._kept / name, text)
        except OSError:
            return  # a copy for bad days; the good day goes on without it


def _text(path: Path) -> str:
    with open(path, "rb") as file:
        data = file.read(CALENDAR_LIMIT_BYTES + 1)
    if len(data) > CALENDAR_LIMIT_BYTES:
        raise CalendarTrouble(f"it has more than {CALENDAR_LIMIT_BYTES >> 20} MiB")
    return data.decode("utf-8")


def _said(trouble: Exception) -> str:
    if isinstance(trouble, OSError):
        return trouble.strerror or "it cannot be read"
    return "it is no text" if isinstance(trouble, UnicodeDecodeError) else str(trouble)


def _mark(path: Path) -> Mark:
    try:
        details = path.stat()
    except OSError:
        return None
    return details.st_mtime_ns, details.st_size, details.st_ino
