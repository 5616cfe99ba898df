"""Work that was asked for: Philly's jobs, Alibaba's GPU-sharing pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpunion.domain.resources import MIB
from gpunion.lab.traces.records import TraceJob
from gpunion.lab.traces.rows import Row

PHILLY_COLUMNS = ("submit_time", "duration_s", "num_gpus", "cluster")
OPENB_COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)


def read_philly(rows: Iterable[Row]) -> Iterator[TraceJob]:
    """Jobs have no names of their own: they are called by their line."""
    for row in rows:
        yield TraceJob(
            id=f"philly-{row.line}",
            group=row.text("cluster"),
            submit_s=row.epoch_s("submit_time"),
            start_s=None,
            duration_s=row.number("duration_s"),
            gpus=row.whole("num_gpus"),
        )


def read_openb(rows: Iterable[Row]) -> Iterator[TraceJob]:
    """Times count from the beginning of the trace. A pod that was never scheduled has no duration."""
    for row in rows:
        start_s = row.number("scheduled_time") if row.has("scheduled_time") else None
        end_s = row.number("deletion_time") if row.has("deletion_time") else None
        if start_s is not None and end_s is not None and end_s < start_s:
            raise row.error("deletion_time: expected no earlier than scheduled_time")
        gpus = row.whole("num_gpu")
        yield TraceJob(
            id=row.text("name"),
            group="all",
            submit_s=row.number("creation_time"),
            start_s=start_s,
            duration_s=None if start_s is None or end_s is None else end_s - start_s,
            gpus=gpus,
            gpu_share=row.whole("gpu_milli") / 1000.0 if gpus else 1.0,
            gpu_models=tuple(word for word in row.cells["gpu_spec"].strip().split("|") if word),
            cpus=row.whole("cpu_milli") / 1000.0,
            memory_bytes=row.whole("memory_mib") * MIB,
        )
