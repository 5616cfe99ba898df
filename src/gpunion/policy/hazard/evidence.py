"""Which answer to trust for a node: the one that would have foretold its days best, before they came.

Every closed period is first foretold with what was known at its beginning and only then learned from, so the
score of an answer is always on days it had not seen. A node with little evidence of its own leans on how the
answers fared on the rest of the fleet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import exp, log, sqrt

from gpunion.policy.hazard.history import HALF_LIFE_S, LentSpan, number
from gpunion.policy.hazard.profile import Answer, RateProfile
from gpunion.policy.hazard.scoring import log_likelihood

# The rest of the fleet speaks with the weight of this many departures of the node's own.
FLEET_SAYS_DEPARTURES = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """`nats[answer]`: log-likelihood of the node's periods under the answer, less that of the constant;
    `squares`: of each period's difference, to tell a steady gain from one lucky day."""

    as_of_s: float = 0.0
    departures: float = 0.0
    nats: Mapping[Answer, float] = field(default_factory=lambda: dict.fromkeys(Answer, 0.0))
    squares: Mapping[Answer, float] = field(default_factory=lambda: dict.fromkeys(Answer, 0.0))

    def judged(
        self, spans: Iterable[LentSpan], foretold: Mapping[Answer, RateProfile], now_s: float
    ) -> Evidence:
        spans = tuple(spans)
        fade = exp(-log(2.0) * (now_s - self.as_of_s) / HALF_LIFE_S)
        constant = log_likelihood(foretold[Answer.CONSTANT], spans)
        gains = {answer: log_likelihood(foretold[answer], spans) - constant for answer in Answer}
        return Evidence(
            as_of_s=now_s,
            departures=fade * self.departures + sum(span.departed for span in spans),
            nats={answer: fade * self.nats[answer] + gain for answer, gain in gains.items()},
            squares={answer: fade * self.squares[answer] + gain**2 for answer, gain in gains.items()},
        )

    def without(self, part: Evidence) -> Evidence:
        """A pool less one of those in it."""
        return Evidence(
            as_of_s=self.as_of_s,
            departures=max(0.0, self.departures - part.departures),
            nats={answer: value - part.nats[answer] for answer, value in self.nats.items()},
            squares={
                answer: max(0.0, value - part.squares[answer]) for answer, value in self.squares.items()
            },
        )

    def to_plain(self) -> dict[str, object]:
        return {
            "as_of_s": self.as_of_s,
            "departures": self.departures,
            "nats": {answer.value: value for answer, value in self.nats.items()},
            "squares": {answer.value: value for answer, value in self.squares.items()},
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> Evidence:
        return cls(
            as_of_s=number(plain, "as_of_s"),
            departures=number(plain, "departures"),
            nats=_by_answer(plain, "nats"),
            squares=_by_answer(plain, "squares"),
        )


def _by_answer(plain: Mapping[str, object], key: str) -> dict[Answer, float]:
    values = plain.get(key)
    if not isinstance(values, dict):
        raise ValueError(f"{key}: expected a table, found {values!r}")
    return {answer: number(values, answer.value) for answer in Answer}


def pooled(evidence: Iterable[Evidence]) -> Evidence:
    """All of it together."""
    departures, nats, squares = 0.0, dict.fromkeys(Answer, 0.0), dict.fromkeys(Answer, 0.0)
    for one in evidence:
        departures += one.departures
        for answer in Answer:
            nats[answer] += one.nats[answer]
            squares[answer] += one.squares[answer]
    return Evidence(departures=departures, nats=nats, squares=squares)


def best_answer(own: Evidence, others: Evidence) -> Answer:
    """The answer with the greatest gain over the constant, less one standard error of that gain: departures
    come in bursts, and an answer that was right about one burst has not earned its place yet."""
    weight = FLEET_SAYS_DEPARTURES / others.departures if others.departures > 0 else 0.0
    scores = {
        answer: own.nats[answer]
        + weight * others.nats[answer]
        - sqrt(own.squares[answer] + weight**2 * others.squares[answer])
        for answer in reversed(Answer)  # of equals the most cautious
    }
    return max(scores, key=lambda answer: scores[answer])
