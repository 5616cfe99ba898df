"""An owner's busy intervals: when the machine is theirs because of an appointment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpunion.policy.terms.civil import Zone, moment_s

Span = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Appointment:
    """Something that takes place once. `floating`: begin and end are seconds on the machine's own clock
    on the wall, whatever its zone is; else they are moments."""

    begin_s: float
    end_s: float
    floating: bool = False


def busy_spans(appointments: Iterable[Appointment], own: Zone) -> tuple[Span, ...]:
    """When the machine is its owner's, in order and apart from each other."""
    merged: list[Span] = []
    for begin_s, end_s in sorted(_span(one, own) for one in appointments):
        if end_s <= begin_s:
            continue
        if merged and begin_s <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end_s, merged[-1][1]))
        else:
            merged.append((begin_s, end_s))
    return tuple(merged)


def _span(one: Appointment, own: Zone) -> Span:
    if one.floating:
        return moment_s(one.begin_s, own), moment_s(one.end_s, own)
    return one.begin_s, one.end_s
