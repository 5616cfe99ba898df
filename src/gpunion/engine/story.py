"""A thing's history, told: the reasons of its decisions in order, long runs of the same folded into one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpunion.domain.reasons import Reason, Why

# These come again and again; only the last of a row is worth a line.
_FOLDED = frozenset({Why.SAVED, Why.WAITING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    at_s: float
    why: Why
    sentence: str
    times: int = 1


def tell(entries: Iterable[tuple[float, Reason]], subject: str) -> list[Line]:
    lines: list[Line] = []
    for at_s, reason in entries:
        if reason.subject != subject:
            continue
        line = Line(at_s=at_s, why=reason.why, sentence=reason.sentence())
        if lines and lines[-1].why is reason.why and reason.why in _FOLDED:
            line = Line(at_s=at_s, why=line.why, sentence=line.sentence, times=lines[-1].times + 1)
            lines.pop()
        lines.append(line)
    return lines
