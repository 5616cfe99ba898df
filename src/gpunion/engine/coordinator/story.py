"""A thing's history, told: the reasons of its decisions in order, long runs of the same folded into one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpunion.domain.reasons.reason import Reason, Why, because, told
from gpunion.text import counted

# These come again and again; only the last of a row is worth a line.
_FOLDED = frozenset({Why.SAVED, Why.WAITING})
# And these while what is wrong stays the same: a vault that is away for an hour is one story, not a hundred.
_FOLDED_ALIKE = frozenset({Why.SAVE_FAILED})
# Of windows the first and the last of these are told one by one, those in between in one line.
WINDOWS_TOLD = 2
# What belongs to each window that came and went as it should.
_OF_A_WINDOW = frozenset(
    {
        *(Why.WINDOW_GIVEN, Why.WINDOW_ENDS, Why.WINDOW_OVER, Why.PLACE_PROMISED, Why.PROMISE_DROPPED),
        *(Why.PLACED, Why.STARTED, Why.RESUMED, Why.SAVED, Why.WAITING, Why.TURN_KEPT, Why.ON_A_SLICE),
    }
)

Entry = tuple[float, Reason]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    at_s: float
    why: Why
    sentence: str
    times: int = 1


def tell(entries: Iterable[Entry], subject: str) -> list[Line]:
    lines: list[Line] = []
    last: Reason | None = None
    for at_s, reason in _windows_folded([one for one in entries if one[1].subject == subject], subject):
        times = lines.pop().times + 1 if last is not None and _goes_on(last, reason) else 1
        lines.append(Line(at_s=at_s, why=reason.why, sentence=told(reason), times=times))
        last = reason
    return lines


def _windows_folded(entries: list[Entry], subject: str) -> list[Entry]:
    over = [at for at, (_, reason) in enumerate(entries) if reason.why is Why.WINDOW_OVER]
    if len(over) <= 2 * WINDOWS_TOLD:
        return entries
    first, last = over[WINDOWS_TOLD - 1] + 1, over[-WINDOWS_TOLD - 1] + 1
    between: list[Entry] = []
    usual: list[Entry] = []
    for entry in entries[first:last]:
        if entry[1].why in _OF_A_WINDOW:
            usual.append(entry)
        else:
            between += [*_in_one(usual, subject), entry]
            usual = []
    return [*entries[:first], *between, *_in_one(usual, subject), *entries[last:]]


def _in_one(usual: list[Entry], subject: str) -> list[Entry]:
    """As many of them as were over; where none was, they are told as they are."""
    over = [(at_s, dict(reason.facts)) for at_s, reason in usual if reason.why is Why.WINDOW_OVER]
    if not over:
        return usual
    at_s, facts = over[-1]
    nodes = {str(one["node"]) for _, one in over}
    machines = next(iter(nodes)) if len(nodes) == 1 else counted(len(nodes), "machine")
    why = because(subject, Why.WINDOWS_OVER, windows=len(over), machines=machines, step=facts["step"])
    return [(at_s, why)]


def _goes_on(last: Reason, reason: Reason) -> bool:
    if last.why is not reason.why:
        return False
    if reason.why in _FOLDED_ALIKE:
        return dict(last.facts).get("trouble") == dict(reason.facts).get("trouble")
    return reason.why in _FOLDED
