"""Any trace as what a hazard learns from: when each unit was there to be lent, and when it was taken back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, assert_never

from gpunion.lab.traces.formats import Format, Kind, Record, format_of
from gpunion.lab.traces.machines import (
    spans_of_downtimes,
    spans_of_lifetimes,
    spans_of_logins,
    spans_of_nodes,
    spans_of_supply,
)
from gpunion.lab.traces.pools import IDLE_S, spans_of_pools
from gpunion.lab.traces.records import Demand, DownTime, Lifetime, LogIn, NodeChange, Supply, TraceJob
from gpunion.lab.traces.rows import TraceError, read_rows
from gpunion.policy.hazard.history import LentSpan

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lending:
    """`utc_offset_s`: the zone the file itself speaks of; 0 where its times are local already, or UTC."""

    format: str
    departure_word: str
    utc_offset_s: float
    units: dict[str, tuple[LentSpan, ...]]

    @property
    def departures(self) -> int:
        return sum(span.departed for spans in self.units.values() for span in spans)


def read_lending(path: Path, idle_s: float = IDLE_S) -> Lending:
    """Raises TraceError, also where a good file has no time in which anything could have been lent."""
    known = format_of(path)
    spans, word, utc_offset_s = _spans(known, path, idle_s)
    units = {
        unit: tuple(sorted(of_unit, key=lambda span: span.from_s))
        for unit, of_unit in sorted(spans.items())
        if of_unit
    }
    if not units:
        raise TraceError(
            f"{path}: read as '{known.name}', it has no time in which anything was lent",
            next_step="give a longer record, or a shorter --idle",
        )
    return Lending(format=known.name, departure_word=word, utc_offset_s=utc_offset_s, units=units)


def _spans(known: Format, path: Path, idle_s: float) -> tuple[dict[str, list[LentSpan]], str, float]:
    records = known.read(read_rows(path))
    match known.kind:
        case Kind.DEMAND:
            return spans_of_pools(_only(Demand, records), idle_s), "reclaim", 0.0
        case Kind.SUPPLY:
            return spans_of_supply(_only(Supply, records)), "loss", 0.0
        case Kind.NODE_CHANGES:
            return spans_of_nodes(_only(NodeChange, records)), "loss", 0.0
        case Kind.LOG_INS:
            return spans_of_logins(_only(LogIn, records)), "log-in", 0.0
        case Kind.LIFETIMES:
            spans, utc_offset_s = spans_of_lifetimes(_only(Lifetime, records))
            return spans, "preemption", utc_offset_s
        case Kind.FAILURES:
            return spans_of_downtimes(_only(DownTime, records)), "failure", 0.0
        case Kind.JOBS:
            return spans_of_pools(demand_of_jobs(_only(TraceJob, records)), idle_s), "reclaim", 0.0
        case _:
            assert_never(known.kind)


def demand_of_jobs(jobs: Iterable[TraceJob]) -> Iterator[Demand]:
    """Jobs of a group as its demand for GPUs of its own. How many it owns is not in such a file; the most it
    ever ran at once is the least it must have had. A job without a queue starts when it is handed in."""
    changes: dict[str, list[tuple[float, float]]] = {}
    for job in jobs:
        gpus = job.gpus * job.gpu_share
        if gpus > 0 and job.duration_s:
            start_s = job.submit_s if job.start_s is None else job.start_s
            of_group = changes.setdefault(job.group, [])
            of_group += [(start_s, gpus), (start_s + job.duration_s, -gpus)]
    for group, of_group in changes.items():
        levels = list(_levels(of_group))
        most = max(running for _, running in levels)
        for at_s, running in levels:
            yield Demand(pool=group, at_s=at_s, total=most, running=running)


def _levels(changes: list[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """GPUs running after each moment at which that changes."""
    running = 0.0
    ordered = sorted(changes)
    for number, (at_s, gpus) in enumerate(ordered):
        running += gpus
        if number + 1 == len(ordered) or ordered[number + 1][0] > at_s:
            yield at_s, round(running, 6)


def _only(kind: type[R], records: Iterable[Record]) -> Iterator[R]:
    for record in records:
        assert isinstance(record, kind)
        yield record
