"""When owners come: as they came where that is known, else drawn from how often machines of their lab were
wanted back in each hour of the week."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from itertools import takewhile

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.node import NodePhase
from gpunion.lab.replay.recorded import WEEK_HOURS, PastLab, PastMachine, Recorded
from gpunion.sim.scenario.values import HOUR_S, WEEK_S, OwnerAct, OwnerPlan
from gpunion.sim.streams import Streams

FIRST_WORD_S = 30.0  # by then every machine has joined
STARTS_S = 40.0  # and those that were away have gone: here the recorded time begins
LEAST_AWAY_S = 600.0
OPEN_LEAST = 0.05
NOTED_S = 60.0  # of the changes within a minute the last one is kept
_GONE = frozenset({NodePhase.RECLAIMING, NodePhase.RECLAIMED, NodePhase.SILENT, NodePhase.LEFT})
# Of fewer weeks than this each hour says little by itself, and borrows from the mean of all.
WEEKS_ENOUGH = 4.0


def owner_plans(
    recorded: Recorded, machines: Sequence[PastMachine], streams: Streams
) -> tuple[OwnerPlan, ...]:
    """A machine of a lab that nothing is known of comes and goes as the campus does on average."""
    known = {lab.name: lab for lab in recorded.labs}
    count = {name: sum(one.facts.lab == name for one in recorded.machines) for name in known}
    everybody = _all(recorded.labs)
    plans = []
    for machine in machines:
        lab = known.get(machine.facts.lab)
        of, among = (lab, count[lab.name]) if lab and count[lab.name] else (everybody, len(recorded.machines))
        draw = streams.named(f"replay/owner/{machine.name}")
        drawn = _acts(recorded, of, max(1, among), machine.facts.terms.notice_s, draw)
        acts = tuple(drawn if machine.phases is None else _as_it_was(machine, machine.phases, drawn))
        plans.append(OwnerPlan(node_id=NodeId(machine.name), acts=acts))
    return tuple(plans)


def _as_it_was(
    machine: PastMachine, phases: Sequence[tuple[float, NodePhase]], drawn: Iterator[OwnerAct]
) -> Iterator[OwnerAct]:
    """Word for word, as late as jobs are. One that was lost goes without a notice, as it did. Before the
    first word one that has just joined was not there; of any other nobody knows, and it is drawn."""
    notice_s, there = machine.facts.terms.notice_s, True
    first_s = phases[0][0] if phases else 0.0
    if first_s > NOTED_S and machine.joined_s >= first_s - NOTED_S:
        yield OwnerAct(at_s=FIRST_WORD_S, do="kill")
        there = False
    elif first_s > NOTED_S:
        yield from takewhile(lambda act: act.at_s < first_s + STARTS_S, drawn)
    for after_s, phase in phases:
        at_s = max(FIRST_WORD_S, after_s + STARTS_S)
        if phase in _GONE and there:
            announced = phase is NodePhase.RECLAIMING
            yield OwnerAct(
                at_s=at_s, do="reclaim" if announced else "kill", notice_s=notice_s if announced else None
            )
        elif phase is NodePhase.PAUSED:
            if not there:
                yield OwnerAct(at_s=at_s, do="resume")
            yield OwnerAct(at_s=at_s, do="pause")
        elif phase is NodePhase.SHARING:
            yield OwnerAct(at_s=at_s, do="resume")
        there = phase not in _GONE


def _all(labs: Sequence[PastLab]) -> PastLab:
    by_hour = tuple(sum(lab.departures_by_hour[hour] for lab in labs) for hour in range(WEEK_HOURS))
    share = sum(lab.open_share for lab in labs) / len(labs) if labs else 1.0
    return PastLab(name="", departures_by_hour=by_hour, open_share=share)


def _acts(
    recorded: Recorded, lab: PastLab, machines: int, notice_s: float, draw: random.Random
) -> Iterator[OwnerAct]:
    share = min(1.0, max(OPEN_LEAST, lab.open_share))
    rates = _rates_per_h(recorded, lab, machines, share)
    total = sum(lab.departures_by_hour)
    if not total:
        return
    away_s = max(LEAST_AWAY_S, machines * recorded.counted_s * (1.0 - share) / total)
    at_s = FIRST_WORD_S
    if draw.random() > share:
        back_s = at_s + LEAST_AWAY_S + draw.expovariate(1.0 / away_s)
        yield OwnerAct(at_s=at_s, do="kill")
        yield OwnerAct(at_s=back_s, do="resume")
        at_s = back_s
    while at_s < recorded.length_s:
        hour = (recorded.began_hour + int(at_s // HOUR_S)) % WEEK_HOURS
        next_s = (at_s // HOUR_S + 1) * HOUR_S
        left_s = next_s - at_s
        if draw.random() < math.exp(-rates[hour] * left_s / HOUR_S):
            at_s = next_s
            continue
        goes_s = at_s + draw.random() * left_s
        back_s = goes_s + notice_s + max(LEAST_AWAY_S, draw.expovariate(1.0 / away_s))
        yield OwnerAct(at_s=goes_s, do="reclaim", notice_s=notice_s)
        yield OwnerAct(at_s=back_s, do="resume")
        at_s = back_s


def _rates_per_h(recorded: Recorded, lab: PastLab, machines: int, share: float) -> list[float]:
    """Of one machine while it is lent."""
    weeks = max(recorded.counted_s, HOUR_S) / WEEK_S
    lent_h = machines * share * weeks * WEEK_HOURS
    mean = sum(lab.departures_by_hour) / lent_h
    own = min(1.0, weeks / WEEKS_ENOUGH)
    each_h = machines * share * weeks
    return [own * count / each_h + (1.0 - own) * mean for count in lab.departures_by_hour]
