"""Foretell, then look, then learn: two honest examinations of the forecasts on a record.

*Later weeks*: every node is known from the beginning; scores count after the first third.
*Left out*: a node nobody has seen joins after the first third. What is known of it is the other nodes' past,
and its own only as it passes. With many nodes they are left out a fold at a time.

At no point does a forecast rest on anything that had not happened when it was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpunion.lab.forecasts.periods import Part, Periods, cut
from gpunion.policy.hazard.answers import profiles_of
from gpunion.policy.hazard.book import HazardBook, SpansOfNodes
from gpunion.policy.hazard.buckets import HOUR_S
from gpunion.policy.hazard.evidence import Evidence, best_answer
from gpunion.policy.hazard.history import LentSpan, NodeHistory
from gpunion.policy.hazard.profile import Answer, RateProfile
from gpunion.policy.hazard.scoring import Forecast, best_constant_nats, forecast, log_likelihood

HORIZONS_S = (1 * HOUR_S, 4 * HOUR_S, 8 * HOUR_S)
# Enough forecasts to fill ten tenths many times over; more would only take longer.
FORECASTS_MOST = 5_000
# Up to here each node is left out alone; beyond it, in this many folds.
FOLDS_MOST = 12

Parts = Sequence[Mapping[str, Sequence[Part]]]


@dataclass(slots=True, kw_only=True)
class NodeScore:
    """Sums over a node's scored periods. `nats[None]` is the answer the node really got."""

    departures: int = 0
    lent_s: float = 0.0
    nats: dict[Answer | None, float] = field(default_factory=lambda: dict.fromkeys((None, *Answer), 0.0))

    @property
    def best_constant(self) -> float:
        return best_constant_nats(self.departures, self.lent_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    nodes: dict[str, NodeScore] = field(default_factory=dict)
    forecasts: dict[float, list[Forecast]] = field(
        default_factory=lambda: {horizon_s: [] for horizon_s in HORIZONS_S}
    )

    @property
    def departures(self) -> int:
        return sum(score.departures for score in self.nodes.values())

    def gain(self, answer: Answer | None = None) -> float:
        """Nats per departure over each node's own constant rate, learned from the same past."""
        return self._per_departure(lambda one: one.nats[answer] - one.nats[Answer.CONSTANT])

    def strict_gain(self) -> float:
        """The same over the constant rate that turned out best, which nobody could have known."""
        return self._per_departure(lambda one: one.nats[None] - one.best_constant)

    def _per_departure(self, nats: Callable[[NodeScore], float]) -> float:
        return sum(nats(one) for one in self.nodes.values()) / max(1, self.departures)


def later_weeks(
    record: SpansOfNodes, periods: Periods, empty: HazardBook, step: Callable[[], None]
) -> Examination:
    examination, parts = Examination(), cut(record, periods)
    every_s = forecast_every_s(record, periods)
    book = empty
    for (begin_s, end_s), told in zip(periods, parts, strict=True):
        if begin_s >= periods.later_from_s:
            for node, of_node in told.items():
                answers = book.answers(node)
                _score(examination, node, of_node, answers, answers[book.best(node)], every_s)
        book = book.closed(end_s, _spans(told))
        step()
    return examination


def left_out(
    record: SpansOfNodes, periods: Periods, empty: HazardBook, step: Callable[[], None]
) -> Examination:
    examination, parts = Examination(), cut(record, periods)
    every_s = forecast_every_s(record, periods)
    for fold in folds(sorted(record)):
        _examine_fold(examination, fold, periods, parts, empty, every_s)
        step()
    return examination


def folds(nodes: Sequence[str]) -> list[Sequence[str]]:
    count = min(FOLDS_MOST, len(nodes))
    return [nodes[number::count] for number in range(count)]


def _examine_fold(
    examination: Examination,
    fold: Sequence[str],
    periods: Periods,
    parts: Parts,
    others: HazardBook,
    every_s: float,
) -> None:
    histories = {node: NodeHistory(utc_offset_s=others.utc_offset_s) for node in fold}
    evidence = {node: Evidence() for node in fold}
    for (begin_s, end_s), told in zip(periods, parts, strict=True):
        if begin_s >= periods.later_from_s:
            for node in fold:
                of_node = told.get(node, ())
                if not of_node:
                    continue
                spans = [one.part for one in of_node]
                answers = profiles_of(histories[node], others.prior, others.now_s)
                best = best_answer(evidence[node], others.fleet_evidence)
                _score(examination, node, of_node, answers, answers[best], every_s)
                evidence[node] = evidence[node].judged(spans, answers, end_s)
                histories[node] = histories[node].absorbed(spans)
        rest = {node: of_node for node, of_node in told.items() if node not in histories}
        others = others.closed(end_s, _spans(rest))


def forecast_every_s(record: SpansOfNodes, periods: Periods) -> float:
    lent_s = sum(
        max(0.0, span.to_s - max(span.from_s, periods.later_from_s))
        for spans in record.values()
        for span in spans
    )
    return max(min(HOUR_S, periods.each_s / 4), lent_s / FORECASTS_MOST)


def _spans(told: Mapping[str, Sequence[Part]]) -> dict[str, list[LentSpan]]:
    return {node: [one.part for one in of_node] for node, of_node in told.items()}


def _score(
    examination: Examination,
    node: str,
    of_node: Sequence[Part],
    answers: Mapping[Answer, RateProfile],
    chosen: RateProfile,
    every_s: float,
) -> None:
    score = examination.nodes.setdefault(node, NodeScore())
    spans = [one.part for one in of_node]
    score.departures += sum(span.departed for span in spans)
    score.lent_s += sum(span.to_s - span.from_s for span in spans)
    for answer, profile in answers.items():
        nats = log_likelihood(profile, spans)
        score.nats[answer] += nats
        if profile is chosen:
            score.nats[None] += nats
    for one in of_node:
        for at_s in _moments(one.part, every_s):
            for horizon_s, forecasts in examination.forecasts.items():
                made = forecast(chosen, answers[Answer.CONSTANT], one.whole, at_s, horizon_s)
                if made is not None:
                    forecasts.append(made)


def _moments(part: LentSpan, every_s: float) -> Iterator[float]:
    """Moments of a fixed grid, so that busy nodes with many short spans are not asked more often."""
    number = -(-part.from_s // every_s)
    while number * every_s < part.to_s:
        yield number * every_s
        number += 1
