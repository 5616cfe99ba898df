"""Figures for whoever watches the campus from outside, as series with names that stay.

Labels are few and bounded: words of ours, nodes, labs and GPUs, never a job and never a person. What is
counted begins anew with each start of the process, and whoever reads it expects that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class NoMetrics(Exception):
    """Nothing is counted here. The message says why, and what to do about it."""


class SeriesKind(StrEnum):
    COUNTER = "counter"  # only grows, and begins at 0 with each start; its name ends in `_total`
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    name: str  # in base units, which it ends with
    help: str
    kind: SeriesKind
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()  # of a histogram: the upper bounds of its buckets
    # Of what is counted: labels that are shown from the start, so that the first event is an increase.
    expected: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What is so at the moment."""

    series: Series
    value: float
    labels: tuple[str, ...] = ()


class Metrics(Protocol):
    @property
    def media_type(self) -> str:
        """Of a page."""
        ...

    def count(self, series: Series, amount: float = 1.0, labels: tuple[str, ...] = ()) -> None:
        """Of a counter. Cheap; may be called from any thread."""
        ...

    def observe(self, series: Series, value: float, labels: tuple[str, ...] = ()) -> None:
        """Of a histogram. Cheap; may be called from any thread."""
        ...

    def page(self, now: Iterable[Sample]) -> bytes:
        """All that was counted and what is so now. Takes a while with many samples: not for an event loop.
        Raises NoMetrics."""
        ...


class Uncounted:
    """Where nothing can be counted: whoever asks for the page is told why."""

    media_type = "text/plain"

    def __init__(self, why: str) -> None:
        self._why = why

    def count(self, series: Series, amount: float = 1.0, labels: tuple[str, ...] = ()) -> None:
        return

    def observe(self, series: Series, value: float, labels: tuple[str, ...] = ()) -> None:
        return

    def page(self, now: Iterable[Sample]) -> bytes:
        raise NoMetrics(self._why)
