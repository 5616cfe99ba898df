"""Keeps the owner's terms: the file, what of it is in force, and the last that could be read.

A file that cannot be read, or says something impossible, changes nothing: the terms in force stay, and the
owner is told. The same holds for the calendar. Both are copied when they were good, so that this is also true
of an agent that starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpunion.agent.terms.file import (
    TERMS_FILE,
    TermsTrouble,
    changed,
    parse_terms,
    read_terms,
    written,
)
from gpunion.agent.terms.wall_time import zone_of_terms
from gpunion.domain.nodes.terms import OwnersTerms
from gpunion.files import write_whole
from gpunion.policy.terms.busy import Appointment, busy_spans
from gpunion.policy.terms.civil import DAY_S
from gpunion.policy.terms.forecast import Times
from gpunion.policy.terms.hours import LOOK_AHEAD_S, parse_hours
from gpunion.ports.calendar import Calendar, CalendarTrouble

GOOD_TERMS, GOOD_CALENDAR = "terms.good.toml", "calendar.good.ics"
CALENDAR_LIMIT_BYTES = 8 * 1024**2
# A calendar is worked out for some days, and anew every day: far more than a forecast ever looks ahead.
CALENDAR_DAYS_S = 2 * LOOK_AHEAD_S
CALENDAR_FRESH_S = DAY_S
CALENDAR_AGAIN_S = 3600.0  # where that failed: working it out may be dear

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
    def __init__(
        self,
        state_dir: Path,
        found: Found,
        calendar: Calendar,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.terms = found.terms
        self.trouble = found.trouble  # why the file is not what is in force
        self.calendar_trouble = ""  # why the calendar is an older one
        self.path = state_dir / TERMS_FILE
        self._kept = state_dir / "agent"
        self._mark = _mark(self.path)
        self._calendar = calendar
        self._wall = wall
        self._calendar_mark: Mark = None
        self._appointments: tuple[Appointment, ...] = ()
        self._worked_out_s = wall()  # when the appointments were
        self._find_calendar_at_start()
        self.times = self._times()

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
        if terms.house.calendar != self.terms.house.calendar:
            self._calendar_mark, self.calendar_trouble = _mark(Path(terms.house.calendar)), ""
            text, appointments = self._calendar_of(terms)
            if text:
                self._keep(GOOD_CALENDAR, text)
            self._take_appointments(appointments)
        self.terms = terms
        self._keep(GOOD_TERMS, written(terms))
        self.times = self._times()

    def read_calendar_of(self, terms: OwnersTerms) -> tuple[Appointment, ...]:
        """TermsTrouble says why not. A calendar that is in force already may be unreadable for a while."""
        return self._calendar_of(terms)[1]

    def _calendar_of(self, terms: OwnersTerms) -> tuple[str, tuple[Appointment, ...]]:
        """No text where what is in force goes on."""
        if not terms.house.calendar:
            return "", ()
        try:
            text = _text(Path(terms.house.calendar))
            return text, self._work_out(text)
        except (OSError, UnicodeDecodeError, CalendarTrouble) as trouble:
            if terms.house.calendar == self.terms.house.calendar:
                return "", self._appointments
            raise TermsTrouble(f"calendar: {terms.house.calendar}: {_said(trouble)}") from trouble

    def calendar_problem(self) -> str:
        """Why the calendar cannot be read right now; empty where it can, or there is none. Blocks."""
        if self.terms.house.calendar and not self.calendar_trouble:
            self._calendar_mark = None
            self._look_at_calendar()
        return self.calendar_trouble

    def _look_at_calendar(self) -> None:
        path = self.terms.house.calendar
        if not path:
            return
        mark = _mark(Path(path))
        if mark is None or mark != self._calendar_mark:
            self._calendar_mark = mark
            self._read_changed_calendar(path)
        age_s = self._wall() - self._worked_out_s
        if not -CALENDAR_AGAIN_S <= age_s < CALENDAR_FRESH_S:
            self._work_out_again(path)

    def _read_changed_calendar(self, path: str) -> None:
        try:
            text = _text(Path(path))
            appointments = self._work_out(text)
        except (OSError, UnicodeDecodeError, CalendarTrouble) as trouble:
            self.calendar_trouble = f"{path}: {_said(trouble)}; its last good copy counts"
            return
        self.calendar_trouble = ""
        self._keep(GOOD_CALENDAR, text)
        self._take_appointments(appointments)
        self.times = self._times()

    def _find_calendar_at_start(self) -> None:
        """The last good copy; the first look finds what is there now."""
        path = self.terms.house.calendar
        if path and not self._work_out_first_of(Path(path), self._kept / GOOD_CALENDAR):
            self.calendar_trouble = (
                f"{path}: it cannot be read and there is no copy; it is as if it were empty"
            )

    def _work_out_again(self, path: str) -> None:
        """The days go on. What is known of them holds for another week where this fails."""
        if self._work_out_first_of(self._kept / GOOD_CALENDAR, Path(path)):
            self.times = self._times()
        else:
            self._worked_out_s = self._wall() - CALENDAR_FRESH_S + CALENDAR_AGAIN_S

    def _work_out_first_of(self, *places: Path) -> bool:
        """False: none of them can be read."""
        for place in places:
            try:
                self._take_appointments(self._work_out(_text(place)))
                return True
            except (OSError, UnicodeDecodeError, CalendarTrouble):
                continue
        return False

    def _work_out(self, text: str) -> tuple[Appointment, ...]:
        now_s = self._wall()
        return self._calendar.appointments(text, now_s - DAY_S, now_s + CALENDAR_DAYS_S)

    def _take_appointments(self, appointments: tuple[Appointment, ...]) -> None:
        self._appointments, self._worked_out_s = appointments, self._wall()

    def _times(self) -> Times:
        house = self.terms.house
        own = zone_of_terms(house.timezone)
        return Times(own, parse_hours(house.hours), busy_spans(self._appointments, own))

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
