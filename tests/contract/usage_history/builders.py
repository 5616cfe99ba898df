"""Figures to be kept, and what of a history a test asks for."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpunion.adapters.usage_history import SqliteUsageHistory
from gpunion.ports.usage_history import (
    HOUR_S,
    MINUTE_S,
    GpuPoint,
    HistoryBatch,
    PhaseSince,
    PointsAsked,
    UsageSum,
)

BEGAN_S = 10_000 * 24 * HOUR_S
LATER_S = BEGAN_S + 100 * 366 * 24 * HOUR_S
AT_ONCE_S = 1e9  # a history that forgets as fast as the clock goes


def a_minute(number: int = 0, lab: str = "vision", departures: int = 0) -> UsageSum:
    return UsageSum(
        at_s=BEGAN_S + number * MINUTE_S, lab=lab, lent_gpu_s=120.0, used_gpu_s=60.0, departures=departures
    )


def a_point(minute: int = 0, node: str = "alpha", **changes: Any) -> GpuPoint:
    point = GpuPoint(
        at_s=BEGAN_S + minute * MINUTE_S,
        node=node,
        index=0,
        uuid="GPU-1",
        model="A100",
        seen_s=60.0,
        utilisation=0.5,
        memory_share=0.5,
        temperature_c=71.0,
        power_w=250.0,
    )
    return replace(point, **changes)


def a_phase(after_s: float, node: str = "alpha", phase: str = "sharing") -> PhaseSince:
    return PhaseSince(at_s=BEGAN_S + after_s, node=node, phase=phase)


def of(*sums: UsageSum) -> HistoryBatch:
    return HistoryBatch(sums=sums)


def minutes(history: SqliteUsageHistory, since_s: float = 0.0) -> list[UsageSum]:
    return list(history.minutes(since_s=since_s, until_s=LATER_S))


def hours(history: SqliteUsageHistory, since_s: float = 0.0) -> list[UsageSum]:
    return list(history.hours(since_s=since_s, until_s=LATER_S))


def asked(point_s: int, **changes: Any) -> PointsAsked:
    """Where nothing else is said, owners who let all be kept still do."""
    usual = PointsAsked(point_s=point_s, since_s=0.0, until_s=LATER_S, most=50_000, open=("alpha", "beta"))
    return replace(usual, **changes)


def gpu_minutes(history: SqliteUsageHistory, node: str = "alpha", **changes: Any) -> list[GpuPoint]:
    return list(history.points(asked(MINUTE_S, node=node, **changes)).points)


def gpu_hours(history: SqliteUsageHistory, **changes: Any) -> list[GpuPoint]:
    return list(history.points(asked(HOUR_S, **changes)).points)


def phases(history: SqliteUsageHistory, *open: str, since_s: float = 0.0) -> list[PhaseSince]:
    return list(history.phases(since_s=since_s, until_s=LATER_S, open=open))


def in_the_file(folder: Path, statement: str, *values: object) -> list[Any]:
    """What somebody else does to it."""
    connection = sqlite3.connect(folder / "usage.db", isolation_level=None)
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        connection.close()
