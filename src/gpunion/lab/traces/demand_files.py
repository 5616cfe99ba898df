"""Groups that own GPUs and how many of them they use: Helios partitions, Philly's active nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpunion.lab.traces.records import Demand
from gpunion.lab.traces.rows import InOrder, Row

HELIOS_COLUMNS = ("vc", "time", "total_gpus", "running_gpus")
ACTIVE_NODES_COLUMNS = ("time", "active_nodes", "total_nodes")


def read_helios(rows: Iterable[Row]) -> Iterator[Demand]:
    """Partitions may come one after the other or mixed; each in order of time."""
    in_order = InOrder()
    for row in rows:
        pool = row.text("vc")
        yield Demand(
            pool=pool,
            at_s=in_order.checked(row, "time", pool, row.epoch_s("time")),
            total=row.whole("total_gpus"),
            running=row.whole("running_gpus"),
        )


def read_active_nodes(rows: Iterable[Row]) -> Iterator[Demand]:
    in_order = InOrder()
    for row in rows:
        yield Demand(
            pool="all",
            at_s=in_order.checked(row, "time", "all", row.epoch_s("time")),
            total=row.whole("total_nodes"),
            running=row.whole("active_nodes"),
        )
