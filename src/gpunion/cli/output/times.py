"""Times as they come over the wire, for people: how long ago, and at which moment here."""

from __future__ import annotations

from datetime import UTC, datetime

from gpunion.cli.quantities import shown_duration


def ago(stamp: str | None, now: datetime | None = None) -> str:
    if stamp is None:
        return "-"
    passed_s = ((now or datetime.now(UTC)) - datetime.fromisoformat(stamp)).total_seconds()
    return f"{shown_duration(float(round(max(0.0, passed_s))))} ago"


def time_span(since: str, until: str) -> str:
    """From when to when; of an end on the day of the beginning the time alone."""
    ends = datetime.fromisoformat(until).astimezone()
    same_day = datetime.fromisoformat(since).astimezone().date() == ends.date()
    return f"From {clock_time(since)} to {ends.strftime('%H:%M:%S' if same_day else '%Y-%m-%d %H:%M:%S')}"


def clock_time(stamp: str) -> str:
    """Local time of day; with the date when that is not today's."""
    moment = datetime.fromisoformat(stamp).astimezone()
    today = datetime.now().astimezone().date()
    return moment.strftime("%H:%M:%S" if moment.date() == today else "%Y-%m-%d %H:%M:%S")
