"""Spot machines that come and go: SkyPilot's campaigns, Bamboo's counts and node lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpunion.lab.traces.records import NodeChange, Supply
from gpunion.lab.traces.rows import InOrder, Row

SKYPILOT_COLUMNS = ("trace", "t_s", "nodes_available")
AWS_COUNTS_COLUMNS = ("timestamp", "count")
GCP_COUNTS_COLUMNS = ("time", "instances")
NODE_EVENTS_COLUMNS = ("t_ms", "event", "node")


def read_skypilot(rows: Iterable[Row]) -> Iterator[Supply]:
    in_order = InOrder()
    for row in rows:
        unit = row.text("trace")
        at_s = in_order.checked(row, "t_s", unit, row.number("t_s"))
        yield Supply(unit=unit, at_s=at_s, nodes=row.whole("nodes_available"))


def read_aws_counts(rows: Iterable[Row]) -> Iterator[Supply]:
    in_order = InOrder()
    for row in rows:
        at_s = in_order.checked(row, "timestamp", "all", row.epoch_s("timestamp"))
        yield Supply(unit="all", at_s=at_s, nodes=row.whole("count"))


def read_gcp_counts(rows: Iterable[Row]) -> Iterator[Supply]:
    """Readings were written down several times and some step back in time: the first of each counts."""
    latest_s = float("-inf")
    for row in rows:
        at_s = row.epoch_s("time")
        if at_s >= latest_s:
            latest_s = at_s
            yield Supply(unit="all", at_s=at_s, nodes=row.whole("instances"))


def read_node_events(rows: Iterable[Row]) -> Iterator[NodeChange]:
    in_order = InOrder()
    for row in rows:
        yield NodeChange(
            unit="all",
            at_s=in_order.checked(row, "t_ms", "all", row.number("t_ms") / 1000.0),
            node=row.text("node"),
            added=row.one_of("event", ("add", "remove")) == "add",
        )
