"""What an owner's calendar says of the days around now."""

from __future__ import annotations

from typing import Protocol

from gpunion.policy.terms.busy import Appointment


class CalendarTrouble(ValueError):
    """What is wrong with the file, in words for its owner."""


class Calendar(Protocol):
    def appointments(self, text: str, since_s: float, until_s: float) -> tuple[Appointment, ...]:
        """Each time that an event takes place between two moments, at the latest after some seconds. Blocks.

        CalendarTrouble where anything in it is not understood: an appointment that is silently missed would
        lend a machine that is not to be had."""
