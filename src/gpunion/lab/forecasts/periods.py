"""A record cut into periods, so that each can be foretold before it is learned from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpunion.policy.hazard.book import SpansOfNodes
from gpunion.policy.hazard.buckets import DAY_S, WEEK_S
from gpunion.policy.hazard.history import LentSpan

# A short record is cut finer than by days, a long one coarser: a refit costs, and in the end says little new.
PERIODS_LEAST, PERIODS_MOST = 20, 60
# "Later" is what comes after the first third, in whole weeks where there are any.
FIRST_PART = 1 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    from_s: float
    to_s: float
    each_s: float
    later_from_s: float

    def __iter__(self) -> Iterator[tuple[float, float]]:
        for number in range(self.count):
            begin_s = self.from_s + number * self.each_s
            yield begin_s, min(self.to_s, begin_s + self.each_s)

    @property
    def count(self) -> int:
        return max(1, int(-(-(self.to_s - self.from_s) // self.each_s)))


def periods_of(record: SpansOfNodes, most: int = PERIODS_MOST) -> Periods:
    """Raises ValueError where nothing was ever lent."""
    spans = [span for spans in record.values() for span in spans]
    if not spans:
        raise ValueError("the record has no time in which anything was lent")
    from_s, to_s = min(span.from_s for span in spans), max(span.to_s for span in spans)
    from_s = from_s // 60 * 60
    long_s = max(1.0, to_s - from_s)
    each_s = max(min(DAY_S, long_s / PERIODS_LEAST), long_s / most)
    if each_s > DAY_S:
        each_s = -(-each_s // DAY_S) * DAY_S
    first_s = long_s * FIRST_PART
    if first_s >= WEEK_S / 2:
        first_s = max(1.0, round(first_s / WEEK_S)) * WEEK_S
    periods = -(-first_s // each_s)
    return Periods(from_s=from_s, to_s=to_s, each_s=each_s, later_from_s=from_s + periods * each_s)


@dataclass(frozen=True, slots=True)
class Part:
    """What of a span fell in a period, and the span."""

    part: LentSpan
    whole: LentSpan


def cut(record: SpansOfNodes, periods: Periods) -> list[dict[str, list[Part]]]:
    """For every period, the parts of the spans within it."""
    parts: list[dict[str, list[Part]]] = [{} for _ in range(periods.count)]
    for node, spans in record.items():
        for span in spans:
            first = int((span.from_s - periods.from_s) // periods.each_s)
            last = int((span.to_s - periods.from_s) // periods.each_s)
            for number in range(max(0, first), min(last, periods.count - 1) + 1):
                begin_s = periods.from_s + number * periods.each_s
                part = span.within(begin_s, begin_s + periods.each_s)
                if part is not None:
                    parts[number].setdefault(node, []).append(Part(part, span))
    return parts
