"""Why something happened, or did not: one word for programs, one sentence for people.

A reason names its subject (a job, a run or a node) so that `gpunion why` can tell a thing's story.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpunion.domain.reasons.sentences import MORE_IS_KNOWN, SENTENCES, WITHOUT_NOTICE
from gpunion.domain.reasons.why import Why
from gpunion.text import agreeing, duration_in_words, size_in_words

__all__ = ["Fact", "Reason", "Verdict", "Why", "because", "told"]

Fact = str | int | float
ONE = (1, "1")
LEAST_NOTICE_S = 0.05  # less would be shown as nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    subject: str
    why: Why
    facts: tuple[tuple[str, Fact], ...] = ()

    def sentence(self) -> str:
        template = agreeing(self._template(), frozenset(name for name, value in self.facts if value in ONE))
        return template.format(**{name: _in_its_unit(name, value) for name, value in self.facts})

    def _template(self) -> str:
        notice_s = dict(self.facts).get("notice_s")
        if isinstance(notice_s, int | float) and notice_s < LEAST_NOTICE_S:
            return WITHOUT_NOTICE.get(self.why, SENTENCES[self.why])
        known = {name for name, _ in self.facts}
        of_more = (text for (why, name), text in MORE_IS_KNOWN.items() if why is self.why and name in known)
        return next(of_more, SENTENCES[self.why])


def told(reason: Reason) -> str:
    """Of one that was stored: a coordinator of before may have known less than is told today."""
    try:
        return reason.sentence()
    except KeyError:
        return reason.why.value.replace("_", " ")


def because(subject: str, why: Why, **facts: Fact) -> Reason:
    return Reason(subject=subject, why=why, facts=tuple(sorted(facts.items())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One node's answer to one job. `refusal` is None where it would do."""

    node: str
    refusal: Reason | None = None
    score: float = 0.0

    @property
    def fits(self) -> bool:
        return self.refusal is None


def _in_its_unit(name: str, value: Fact) -> str:
    if name.endswith("_s"):
        return _shown_time(value)
    if name.endswith("bytes") and isinstance(value, int | float):
        return size_in_words(value)
    return _shown(value)


def _shown_time(value: Fact) -> str:
    """Seconds as long as they are easily read, two units at most after that."""
    if not isinstance(value, int | float) or not 120 <= value < math.inf:
        return f"{_shown(value)} s"
    return duration_in_words(value)


def _shown(value: Fact) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return str(value)
