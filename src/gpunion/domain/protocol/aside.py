"""What could not be handled and is not met again: kept so that somebody can find out why."""

from __future__ import annotations

from dataclasses import dataclass

# Of these the newest are kept, each cut to what a person reads.
KEPT_MOST = 100
CONTENT_CHARS = 2000
BECAUSE_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    id: str  # its place among those that are kept; the oldest gives way
    at_s: float
    what: str  # the name of the message, the timer, the request
    subject: str  # the node, run or job it came from or was about
    because: str  # what went wrong
    content: str
    tries: int = 1  # of a timer: how often in a row
