"""What an audit finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    invariant: int  # as numbered in ARCHITECTURE.md
    subject: str
    what: str
