"""Where around its commits a process dies: before, after, or somewhere among the effects that follow."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Moment(Enum):
    BEFORE_COMMIT = "before_commit"
    AFTER_COMMIT = "after_commit"


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """`effects_done`: how many effects of that commit are still performed before the end."""

    moment: Moment
    effects_done: int = 0


class Crashed(Exception):
    """The process died at its crash point: nobody goes on with what it was doing."""
