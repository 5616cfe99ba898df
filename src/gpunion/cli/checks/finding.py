"""What one check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    OK = "ok"
    WARNING = "warning"  # something works less well, or only another role needs it
    MISSING = "missing"  # something asked of this machine cannot work


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    check: str
    state: State
    found: str
    mend: str = ""


def ok(check: str, found: str) -> Finding:
    return Finding(check=check, state=State.OK, found=found)


def warning(check: str, found: str, mend: str) -> Finding:
    return Finding(check=check, state=State.WARNING, found=found, mend=mend)


def missing(check: str, found: str, mend: str) -> Finding:
    return Finding(check=check, state=State.MISSING, found=found, mend=mend)
