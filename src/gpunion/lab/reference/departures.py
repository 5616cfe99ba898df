"""How owners come: with notice, with the kill switch, or by pulling the plug; and what was seen before the
simulated days begin, which is what a coordinator would have learned from by then.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpunion.domain.ids import NodeId
from gpunion.lab.reference.absences import Absence, Ownership, OwnerTrace, apart
from gpunion.policy.hazard.book import HazardBook
from gpunion.policy.hazard.buckets import DAY_S, WEEK_S
from gpunion.policy.hazard.history import LentSpan
from gpunion.sim.scenario.values import OwnerAct, OwnerPlan, ScriptedTrouble
from gpunion.sim.streams import Streams

# Agents need a moment to join before an owner who is already at the machine can say so.
FIRST_WORD_S = 5.0
# Half of those who do not announce themselves press the switch; of the other half the machine just vanishes.
PLUG_SHARE = 0.5
# A machine is lent again no sooner than this after its owner got it.
LEAST_AWAY_S = 60.0


class Manner(StrEnum):
    NOTICE = "notice"
    KILL = "kill"
    PLUG = "plug"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """How the owners of a campus behave: swept, never hidden."""

    unannounced_share: float = 0.3
    notices_s: tuple[float, ...] = (30.0, 60.0, 120.0, 600.0)


@dataclass(frozen=True, slots=True)
class Departure:
    """In simulated time: what is before 0 is history."""

    at_s: float
    back_s: float
    manner: Manner
    notice_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which part of a trace is simulated. `repeated`: the record was too short and is gone through again,
    so that what was learned may come once more: good for speed, not for a figure."""

    starts_s: float
    horizon_s: float
    round_s: float
    repeated: bool

    @property
    def utc_offset_s(self) -> float:
        """Turns simulated seconds into an hour of the trace's week."""
        return self.starts_s % WEEK_S


def last_part(trace: OwnerTrace, horizon_s: float) -> Window:
    """The end of the record, so that all before it can be learned from."""
    length_s = trace.to_s - trace.from_s
    round_s = length_s // WEEK_S * WEEK_S or max(DAY_S, length_s // DAY_S * DAY_S)
    fits = horizon_s <= length_s / 2
    starts_s = trace.to_s - (horizon_s if fits else length_s / 2)
    return Window(starts_s=starts_s, horizon_s=horizon_s, round_s=round_s, repeated=not fits)


def departures(
    ownership: Ownership, window: Window, manners: Manners, streams: Streams
) -> dict[str, tuple[Departure, ...]]:
    found = {}
    for name, absences in sorted(ownership.absences.items()):
        draw = streams.named(f"departures/{name}")
        placed = apart([_in_window(absence, window) for absence in _going_on(absences, window)])
        found[name] = tuple(_came(absence, manners, draw) for absence in placed)
    return found


def owner_plans(by_node: Mapping[str, Sequence[Departure]]) -> tuple[OwnerPlan, ...]:
    plans = []
    for name, coming in by_node.items():
        acts: list[OwnerAct] = []
        for departure in coming:
            if departure.back_s > FIRST_WORD_S and departure.manner is not Manner.PLUG:
                acts += _acts(departure)
        plans.append(OwnerPlan(node_id=NodeId(name), acts=tuple(acts)))
    return tuple(plans)


def power_cuts(by_node: Mapping[str, Sequence[Departure]]) -> tuple[ScriptedTrouble, ...]:
    return tuple(
        ScriptedTrouble(
            at_s=max(FIRST_WORD_S, departure.at_s),
            kind="node_crash",
            node_id=NodeId(name),
            for_s=max(LEAST_AWAY_S, departure.back_s - max(FIRST_WORD_S, departure.at_s)),
        )
        for name, coming in by_node.items()
        for departure in coming
        if departure.manner is Manner.PLUG and departure.back_s > FIRST_WORD_S
    )


def learned(by_node: Mapping[str, Sequence[Departure]], from_s: float, utc_offset_s: float) -> HazardBook:
    """The book of a coordinator that has watched since `from_s` (below 0), closed day by day up to 0."""
    spans = {name: tuple(_lent(coming, from_s)) for name, coming in by_node.items()}
    book = HazardBook(utc_offset_s=utc_offset_s, now_s=from_s)
    day_s = from_s
    while day_s < 0.0:
        next_s = min(0.0, day_s + DAY_S)
        today = {
            name: [part for span in of_node if (part := span.within(day_s, next_s)) is not None]
            for name, of_node in spans.items()
        }
        book = book.closed(next_s, today)
        day_s = next_s
    return book


def _going_on(absences: Sequence[Absence], window: Window) -> Iterator[Absence]:
    yield from absences
    if not window.repeated:
        return
    end_s = max((absence.to_s for absence in absences), default=0.0)
    last_round = [absence for absence in absences if absence.from_s >= end_s - window.round_s]
    for number in range(1, int(window.horizon_s // window.round_s) + 2):
        for absence in last_round:
            shift_s = number * window.round_s
            yield Absence(absence.from_s + shift_s, absence.to_s + shift_s)


def _in_window(absence: Absence, window: Window) -> Absence:
    return Absence(absence.from_s - window.starts_s, absence.to_s - window.starts_s)


def _came(absence: Absence, manners: Manners, draw: random.Random) -> Departure:
    """Three draws for everybody, so that a sweep changes manners and nothing else."""
    announced, notice, plug = draw.random(), draw.random(), draw.random()
    notice_s = manners.notices_s[int(notice * len(manners.notices_s))]
    if announced >= manners.unannounced_share:
        back_s = max(absence.to_s, absence.from_s + notice_s + LEAST_AWAY_S)
        return Departure(absence.from_s, back_s, Manner.NOTICE, notice_s)
    manner = Manner.PLUG if plug < PLUG_SHARE else Manner.KILL
    return Departure(absence.from_s, max(absence.to_s, absence.from_s + LEAST_AWAY_S), manner, 0.0)


def _acts(departure: Departure) -> list[OwnerAct]:
    back = OwnerAct(at_s=departure.back_s, do="resume")
    if departure.at_s < FIRST_WORD_S:
        return [OwnerAct(at_s=FIRST_WORD_S, do="kill"), back]
    if departure.manner is Manner.KILL:
        return [OwnerAct(at_s=departure.at_s, do="kill"), back]
    return [OwnerAct(at_s=departure.at_s, do="reclaim", notice_s=departure.notice_s), back]


def _lent(coming: Sequence[Departure], from_s: float) -> Iterator[LentSpan]:
    free_s = from_s
    for departure in coming:
        if departure.at_s > 0.0:
            break
        if departure.at_s > free_s:
            yield LentSpan(from_s=free_s, to_s=departure.at_s, departed=True, free_since_s=free_s)
        free_s = max(free_s, departure.back_s)
    if free_s < 0.0:
        yield LentSpan(from_s=free_s, to_s=0.0, departed=False, free_since_s=free_s)
