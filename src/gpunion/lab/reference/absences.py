"""When each machine is its owner's: from any trace of owners to the times in which nothing is lent.

A demand file says how many of its GPUs a group uses. The group's machines on the campus are taken in that
proportion: first those it still holds back, then any of its lent ones, by lot; one it no longer needs is
lent after it lay idle. Other traces say of single units when they could be had; what lies between is absence.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from gpunion.lab.reference.campus import Machine
from gpunion.lab.traces.formats import Kind, format_of, read_records
from gpunion.lab.traces.lending import demand_of_jobs, read_lending
from gpunion.lab.traces.pools import IDLE_S
from gpunion.lab.traces.records import Demand, TraceJob
from gpunion.lab.traces.rows import TraceError
from gpunion.policy.hazard.buckets import WEEK_S
from gpunion.sim.streams import Streams


@dataclass(frozen=True, slots=True)
class Absence:
    """The owner wants the machine from here and lends it again there."""

    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerTrace:
    """Either groups' demand, or single units' absences; in the trace's own time."""

    from_s: float
    to_s: float
    demand: Mapping[str, tuple[Demand, ...]] = field(default_factory=dict)
    units: Mapping[str, tuple[Absence, ...]] = field(default_factory=dict)

    @property
    def labs(self) -> tuple[str, ...]:
        return tuple(sorted(self.demand or self.units))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Who owns which machine, and when each of them is not lent."""

    lab_of: Mapping[str, str]
    absences: Mapping[str, tuple[Absence, ...]]


def read_owners(path: Path) -> OwnerTrace:
    known = format_of(path)
    if known.kind in (Kind.DEMAND, Kind.JOBS):
        records = list(read_records(path))
        changes = (
            demand_of_jobs(record for record in records if isinstance(record, TraceJob))
            if known.kind is Kind.JOBS
            else (record for record in records if isinstance(record, Demand))
        )
        pools: dict[str, list[Demand]] = {}
        for change in changes:
            pools.setdefault(change.pool, []).append(change)
        if not pools:
            raise TraceError(f"{path}: nobody's demand is in it", next_step="give a longer record")
        return OwnerTrace(
            from_s=min(of_pool[0].at_s for of_pool in pools.values()),
            to_s=max(of_pool[-1].at_s for of_pool in pools.values()),
            demand={pool: tuple(of_pool) for pool, of_pool in pools.items()},
        )
    return _units(path)


def _units(path: Path) -> OwnerTrace:
    lending = read_lending(path)
    units: dict[str, tuple[Absence, ...]] = {}
    for unit, spans in lending.units.items():
        gaps = []
        for before, after in pairwise(spans):
            if before.departed:
                gaps.append(Absence(before.to_s, max(after.from_s, before.to_s + IDLE_S)))
        units[unit] = tuple(gaps)
    spans_of_all = [span for spans in lending.units.values() for span in spans]
    return OwnerTrace(
        from_s=min(span.from_s for span in spans_of_all),
        to_s=max(span.to_s for span in spans_of_all),
        units=units,
    )


def own(machines: Sequence[Machine], trace: OwnerTrace, streams: Streams) -> Ownership:
    """Deals the machines out to the trace's groups and works out when each is away."""
    if not trace.demand:
        return _own_units(machines, trace, streams)
    lab_of = _deal(machines, trace.demand)
    absences: dict[str, tuple[Absence, ...]] = {}
    for lab, changes in sorted(trace.demand.items()):
        of_lab = [machine for machine in machines if lab_of[machine.name] == lab]
        if of_lab:
            lot = streams.named(f"absences/{lab}")
            absences.update(_of_group(of_lab, changes, trace.to_s, lot))
    return Ownership(lab_of=lab_of, absences=absences)


def _deal(machines: Sequence[Machine], demand: Mapping[str, tuple[Demand, ...]]) -> dict[str, str]:
    """Groups get machines in the proportion of the GPUs they have in the trace, the largest dealt first."""
    totals = {lab: max(change.total for change in changes) for lab, changes in demand.items()}
    gpus = sum(machine.kind.gpus for machine in machines)
    due = {lab: gpus * total / sum(totals.values()) for lab, total in sorted(totals.items())}
    lab_of: dict[str, str] = {}
    for machine in sorted(machines, key=lambda machine: (-machine.kind.gpus, machine.name)):
        lab = max(due, key=lambda lab: (due[lab], lab))
        lab_of[machine.name] = lab
        due[lab] -= machine.kind.gpus
    return lab_of


def _of_group(
    machines: Sequence[Machine], changes: Sequence[Demand], to_s: float, lot: random.Random
) -> dict[str, tuple[Absence, ...]]:
    group = _Group(machines, lot)
    for change in changes:
        group.need(change.at_s, change.running / max(change.total, 1e-9))
    group.finish(to_s)
    return {name: tuple(absences) for name, absences in group.absences.items()}


class _Group:
    """One group's machines while its demand rises and falls."""

    def __init__(self, machines: Sequence[Machine], lot: random.Random) -> None:
        self.absences: dict[str, list[Absence]] = {machine.name: [] for machine in machines}
        self._gpus = {machine.name: machine.kind.gpus for machine in machines}
        self._lot = lot
        self._busy: dict[str, float] = {}  # in use, and since when it was taken
        self._kept: dict[str, tuple[float, float]] = {}  # idle but not lent yet: taken since, idle since

    def need(self, at_s: float, share: float) -> None:
        self._lend_idle(at_s)
        wanted = math.ceil(share * sum(self._gpus.values()) - 1e-9)
        while self._used() < wanted and self._take(at_s):
            pass
        for name in sorted(self._busy, key=lambda name: (-self._busy[name], name)):
            if self._used() - self._gpus[name] >= wanted:
                self._kept[name] = (self._busy.pop(name), at_s)

    def finish(self, to_s: float) -> None:
        self._lend_idle(to_s)
        for name, since_s in [*self._busy.items(), *((n, s) for n, (s, _) in self._kept.items())]:
            self.absences[name].append(Absence(since_s, to_s))

    def _take(self, at_s: float) -> bool:
        if self._kept:
            name = self._lot.choice(sorted(self._kept))
            self._busy[name] = self._kept.pop(name)[0]
            return True
        lent = sorted(set(self._gpus) - set(self._busy))
        if not lent:
            return False
        self._busy[self._lot.choice(lent)] = at_s
        return True

    def _lend_idle(self, at_s: float) -> None:
        for name, (since_s, idle_s) in sorted(self._kept.items()):
            if idle_s + IDLE_S <= at_s:
                self.absences[name].append(Absence(since_s, idle_s + IDLE_S))
                del self._kept[name]

    def _used(self) -> int:
        return sum(self._gpus[name] for name in self._busy)


def _own_units(machines: Sequence[Machine], trace: OwnerTrace, streams: Streams) -> Ownership:
    """A unit to a machine; where there are more machines, the same unit in another week."""
    labs = trace.labs
    lab_of = {machine.name: labs[number % len(labs)] for number, machine in enumerate(machines)}
    weeks = max(1, int((trace.to_s - trace.from_s) // WEEK_S))
    absences: dict[str, tuple[Absence, ...]] = {}
    for machine in machines:
        shift_s = streams.named(f"absences/{machine.name}").randrange(weeks) * WEEK_S
        absences[machine.name] = _turned(trace.units[lab_of[machine.name]], shift_s, trace, weeks * WEEK_S)
    return Ownership(lab_of=lab_of, absences=absences)


def _turned(
    absences: Sequence[Absence], shift_s: float, trace: OwnerTrace, round_s: float
) -> tuple[Absence, ...]:
    """Begins the record by so many whole weeks later; what falls off its end comes first."""
    moved = []
    for absence in absences:
        from_s = absence.from_s - shift_s
        if from_s < trace.from_s:
            from_s += round_s
        moved.append(Absence(from_s, from_s + absence.to_s - absence.from_s))
    return tuple(apart(moved))


def apart(absences: Sequence[Absence]) -> list[Absence]:
    """In order of time; those that touch or overlap are one."""
    joined: list[Absence] = []
    for absence in sorted(absences, key=lambda absence: absence.from_s):
        if joined and absence.from_s <= joined[-1].to_s:
            joined[-1] = Absence(joined[-1].from_s, max(joined[-1].to_s, absence.to_s))
        else:
            joined.append(absence)
    return joined
