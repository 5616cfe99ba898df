"""A thing's history, told: the reasons of its decisions in order, long runs of the same folded into one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpunion.domain.reasons.reason import Reason, Why, told

# These come again and again; only the last of a row is worth a line.
_FOLDED = frozenset({Why.SAVED, Why.WAITING})
# And these while what is wrong stays the same: a vault that is away for an hour is one story, not a hundred.
_FOLDED_ALIKE = frozenset({Why.SAVE_FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    at_s: float
    why: Why
    sentence: str
    times: int = 1


def tell(entries: Iterable[tuple[float, Reason]], subject: str) -> list[Line]:
    lines: list[Line] = []
    last: Reason | None = None
    for at_s, reason in entries:
        if reason.subject != subject:
            continue
        times = lines.pop().times + 1 if last is not None and _goes_on(last, reason) else 1
        lines.append(Line(at_s=at_s, why=reason.why, sentence=told(reason), times=times))
        last = reason
    return lines


def _goes_on(last: Reason, reason: Reason) -> bool:
    if last.why is not reason.why:
        return False
    if reason.why in _FOLDED_ALIKE:
        return dict(last.facts).get("trouble") == dict(reason.facts).get("trouble")
    return reason.why in _FOLDED
