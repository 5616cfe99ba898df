"""What the running process counts and what its audit found, for `GET /audit`."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass

VIOLATIONS_KEPT = 100  # the first ones matter; the count goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    at_s: float
    event: str
    invariant: str
    detail: str


class Ledger:
    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.findings: deque[Finding] = deque(maxlen=VIOLATIONS_KEPT)

    def count(self, name: str) -> None:
        self.counters[name] += 1

    def found(self, finding: Finding) -> None:
        self.count("violations")
        if len(self.findings) < VIOLATIONS_KEPT:
            self.findings.append(finding)
