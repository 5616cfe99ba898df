"""Figures in the text format that Prometheus reads, by its own library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import prometheus_client as library
from prometheus_client import core

from gpunion.ports.metrics import Sample, Series, SeriesKind

PREFIX = "gpunion_"


class PrometheusMetrics:
    media_type = library.CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self, known: Iterable[Series]) -> None:
        """What has no labels, or expected ones, is shown from the start."""
        library.disable_created_metrics()  # nobody reads when a series began
        self._counted = library.CollectorRegistry()
        library.ProcessCollector(registry=self._counted)
        self._made: dict[str, Any] = {}
        for series in known:
            if series.kind is SeriesKind.COUNTER:
                self._made[series.name] = library.Counter(*_described(series), registry=self._counted)
            elif series.kind is SeriesKind.HISTOGRAM:
                self._made[series.name] = library.Histogram(
                    *_described(series), buckets=series.bounds, registry=self._counted
                )
            for labels in series.expected:
                self._child(series, labels)

    def count(self, series: Series, amount: float = 1.0, labels: tuple[str, ...] = ()) -> None:
        self._child(series, labels).inc(max(0.0, amount))

    def observe(self, series: Series, value: float, labels: tuple[str, ...] = ()) -> None:
        self._child(series, labels).observe(max(0.0, value))

    def page(self, now: Iterable[Sample]) -> bytes:
        """Its own registry for what is so now: nothing of a node that has gone stays behind."""
        current = library.CollectorRegistry()
        current.register(_Current(now))
        return bytes(library.generate_latest(self._counted) + library.generate_latest(current))

    def _child(self, series: Series, labels: tuple[str, ...]) -> Any:
        made = self._made[series.name]
        return made.labels(*labels) if series.labels else made


class _Current:
    def __init__(self, now: Iterable[Sample]) -> None:
        self._families: dict[str, Any] = {}
        for sample in now:
            family = self._families.get(sample.series.name)
            if family is None:
                family = self._families[sample.series.name] = _family(sample.series)
            family.add_metric(sample.labels, sample.value)

    def collect(self) -> Iterator[Any]:
        yield from self._families.values()


def _family(series: Series) -> Any:
    kinds = {SeriesKind.COUNTER: core.CounterMetricFamily, SeriesKind.GAUGE: core.GaugeMetricFamily}
    name, told, labels = _described(series)
    return kinds[series.kind](name, told, labels=labels)


def _described(series: Series) -> tuple[str, str, tuple[str, ...]]:
    return PREFIX + series.name, series.help, series.labels
