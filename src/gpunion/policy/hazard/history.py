"""What is remembered of a node: how long it was lent and how often it left, by hour of the week and by age.

The memory fades (a 14-day half-life), is a plain sum, and so does not care in which order or in what pieces
it was told: learning online and learning from a file give the same. It is under six hundred numbers a node.
Each sum is kept as of `as_of_s`; a span that ended earlier counts as much less as it is older.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import exp, expm1, log

from gpunion.domain.nodes.lending import LentSpan as LentSpan
from gpunion.policy.hazard.buckets import (
    AGES,
    BLOCK,
    BLOCKS,
    DAY_S,
    WEEK_HOURS,
    WEEK_S,
    age_class,
    ages_of,
    hour_of_week,
    hours_of,
)

HALF_LIFE_S = 14 * DAY_S
_FADE_PER_S = log(2.0) / HALF_LIFE_S

Plain = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHistory:
    utc_offset_s: float = 0.0
    as_of_s: float = 0.0
    lent_s: tuple[float, ...] = (0.0,) * WEEK_HOURS
    departures: tuple[float, ...] = (0.0,) * WEEK_HOURS
    aged_lent_s: tuple[float, ...] = (0.0,) * (BLOCKS * AGES)
    aged_departures: tuple[float, ...] = (0.0,) * (BLOCKS * AGES)
    # Not faded: what a rare event has to be judged by.
    ever_lent_s: float = 0.0
    ever_departures: int = 0

    def absorbed(self, spans: Iterable[LentSpan]) -> NodeHistory:
        spans = tuple(span for span in spans if span.departed or span.to_s > span.from_s)
        if not spans:
            return self
        latest_s = max(span.to_s for span in spans)
        as_of_s = latest_s if self.is_empty else max(self.as_of_s, latest_s)
        sums = _Sums(self, as_of_s)
        for span in spans:
            sums.add(span)
        return sums.history(self, spans)

    @property
    def is_empty(self) -> bool:
        return self.ever_lent_s == 0 and self.ever_departures == 0

    def faded_by(self, now_s: float) -> float:
        """What the sums have to be multiplied with to be as of now."""
        return exp(-_FADE_PER_S * (now_s - self.as_of_s))

    def to_plain(self) -> Plain:
        return {
            "utc_offset_s": self.utc_offset_s,
            "as_of_s": self.as_of_s,
            "lent_s": list(self.lent_s),
            "departures": list(self.departures),
            "aged_lent_s": list(self.aged_lent_s),
            "aged_departures": list(self.aged_departures),
            "ever_lent_s": self.ever_lent_s,
            "ever_departures": self.ever_departures,
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> NodeHistory:
        return cls(
            utc_offset_s=number(plain, "utc_offset_s"),
            as_of_s=number(plain, "as_of_s"),
            lent_s=_numbers(plain, "lent_s", WEEK_HOURS),
            departures=_numbers(plain, "departures", WEEK_HOURS),
            aged_lent_s=_numbers(plain, "aged_lent_s", BLOCKS * AGES),
            aged_departures=_numbers(plain, "aged_departures", BLOCKS * AGES),
            ever_lent_s=number(plain, "ever_lent_s"),
            ever_departures=int(number(plain, "ever_departures")),
        )


class _Sums:
    """The sums of a history while spans are added; everything is as of one moment."""

    def __init__(self, history: NodeHistory, as_of_s: float) -> None:
        fade = exp(-_FADE_PER_S * (as_of_s - history.as_of_s)) if not history.is_empty else 0.0
        self._as_of_s = as_of_s
        self._utc_offset_s = history.utc_offset_s
        self._lent_s = [value * fade for value in history.lent_s]
        self._departures = [value * fade for value in history.departures]
        self._aged_lent_s = [value * fade for value in history.aged_lent_s]
        self._aged_departures = [value * fade for value in history.aged_departures]

    def add(self, span: LentSpan) -> None:
        for age, from_s, to_s in ages_of(span.from_s, span.to_s, span.free_since_s):
            self._add_lent(age, from_s, to_s)
        if span.departed:
            weight = exp(-_FADE_PER_S * (self._as_of_s - span.to_s))
            hour, age = departure_cell(span, self._utc_offset_s)
            self._departures[hour] += weight
            self._aged_departures[BLOCK[hour] * AGES + age] += weight

    def _add_lent(self, age: int, from_s: float, to_s: float) -> None:
        weeks = int((to_s - from_s) // WEEK_S)
        if weeks > 1:
            # Earlier weeks are the last one again, fainter by the same factor each: a geometric series,
            # so that a node up for years costs no more than one up for a fortnight.
            times = expm1(-_FADE_PER_S * WEEK_S * weeks) / expm1(-_FADE_PER_S * WEEK_S)
            self._add_hours(age, to_s - WEEK_S, to_s, times)
            to_s -= weeks * WEEK_S
        self._add_hours(age, from_s, to_s, 1.0)

    def _add_hours(self, age: int, from_s: float, to_s: float, times: float) -> None:
        for hour, hour_from_s, hour_to_s in hours_of(from_s, to_s, self._utc_offset_s):
            faded_s = times * self._faded_s(hour_from_s, hour_to_s)
            self._lent_s[hour] += faded_s
            self._aged_lent_s[BLOCK[hour] * AGES + age] += faded_s

    def _faded_s(self, from_s: float, to_s: float) -> float:
        """The integral of the fading weight over the span."""
        now = exp(-_FADE_PER_S * (self._as_of_s - to_s))
        return now * -expm1(-_FADE_PER_S * (to_s - from_s)) / _FADE_PER_S

    def history(self, before: NodeHistory, spans: tuple[LentSpan, ...]) -> NodeHistory:
        return NodeHistory(
            utc_offset_s=before.utc_offset_s,
            as_of_s=self._as_of_s,
            lent_s=tuple(self._lent_s),
            departures=tuple(self._departures),
            aged_lent_s=tuple(self._aged_lent_s),
            aged_departures=tuple(self._aged_departures),
            ever_lent_s=before.ever_lent_s + sum(span.to_s - span.from_s for span in spans),
            ever_departures=before.ever_departures + sum(span.departed for span in spans),
        )


def departure_cell(span: LentSpan, utc_offset_s: float) -> tuple[int, int]:
    """Hour of the week and age of a departure: those of the last moment it was still lent."""
    last_s = span.to_s - min(1.0, (span.to_s - span.from_s) / 2)
    return hour_of_week(last_s, utc_offset_s), age_class(last_s - span.free_since_s)


def number(plain: Mapping[str, object], key: str) -> float:
    value = plain.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{key}: expected a number, found {value!r}")
    return float(value)


def _numbers(plain: Mapping[str, object], key: str, length: int) -> tuple[float, ...]:
    values = plain.get(key)
    if not isinstance(values, list) or len(values) != length:
        raise ValueError(f"{key}: expected {length} numbers")
    return tuple(number({key: value}, key) for value in values)
