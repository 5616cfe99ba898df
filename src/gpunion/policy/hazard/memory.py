"""Between a node's history and evidence and the record that keeps them.

The record is the truth and is rounded when it is written, so that a coordinator that starts again knows
exactly what the one before it knew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpunion.domain.ids import NodeId
from gpunion.domain.nodes.lending import Lending, LendingMemory
from gpunion.policy.hazard.book import HazardBook
from gpunion.policy.hazard.evidence import Evidence
from gpunion.policy.hazard.history import NodeHistory
from gpunion.policy.hazard.profile import Answer

# A tenth of a second in an hour's bin, and a ten-thousandth of a departure, are beyond what anybody can tell.
_SECONDS_DIGITS, _DEPARTURES_DIGITS, _NATS_DIGITS = 1, 4, 6


def history_of(memory: LendingMemory, utc_offset_s: float) -> NodeHistory:
    if not memory.lent_s:
        return NodeHistory(utc_offset_s=utc_offset_s)
    return NodeHistory(
        utc_offset_s=utc_offset_s,
        as_of_s=memory.as_of_s,
        lent_s=memory.lent_s,
        departures=memory.departures,
        aged_lent_s=memory.aged_lent_s,
        aged_departures=memory.aged_departures,
        ever_lent_s=memory.ever_lent_s,
        ever_departures=memory.ever_departures,
    )


def evidence_of(memory: LendingMemory) -> Evidence:
    if not memory.nats:
        return Evidence(as_of_s=memory.judged_s)
    return Evidence(
        as_of_s=memory.judged_s,
        departures=memory.judged_departures,
        nats=dict(zip(Answer, memory.nats, strict=True)),
        squares=dict(zip(Answer, memory.squares, strict=True)),
    )


def memory_of(history: NodeHistory, evidence: Evidence) -> LendingMemory:
    return LendingMemory(
        as_of_s=history.as_of_s,
        lent_s=_rounded(history.lent_s, _SECONDS_DIGITS),
        departures=_rounded(history.departures, _DEPARTURES_DIGITS),
        aged_lent_s=_rounded(history.aged_lent_s, _SECONDS_DIGITS),
        aged_departures=_rounded(history.aged_departures, _DEPARTURES_DIGITS),
        ever_lent_s=history.ever_lent_s,
        ever_departures=history.ever_departures,
        judged_s=evidence.as_of_s,
        judged_departures=round(evidence.departures, _DEPARTURES_DIGITS),
        nats=_rounded((evidence.nats[answer] for answer in Answer), _NATS_DIGITS),
        squares=_rounded((evidence.squares[answer] for answer in Answer), _NATS_DIGITS),
    )


def book_of(
    lendings: Mapping[NodeId, Lending], *, learned_s: float, utc_offset_s: float, age_effect: bool = True
) -> HazardBook:
    """The book as of the last lesson, made from the records of all nodes."""
    known = {node: lending.memory for node, lending in lendings.items() if lending.memory.lent_s}
    return HazardBook(
        utc_offset_s=utc_offset_s,
        age_effect=age_effect,
        now_s=learned_s,
        histories={node: history_of(memory, utc_offset_s) for node, memory in known.items()},
        evidence={node: evidence_of(memory) for node, memory in known.items()},
    ).fitted()


def _rounded(values: Iterable[float], digits: int) -> tuple[float, ...]:
    return tuple(round(value, digits) for value in values)
