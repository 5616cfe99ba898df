"""The file: each call opens it and closes it again. There is one a minute, from whichever thread has time."""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from gpunion.adapters.usage_history import gpu_rows
from gpunion.ports.usage_history import (
    HOUR_S,
    HOURS_KEPT_S,
    MINUTE_S,
    MINUTES_KEPT_S,
    BusySum,
    GpuPoint,
    HistoryBatch,
    HistoryFault,
    PhaseSince,
    UsageSum,
)

# A year of a campus of fifty machines has a fifth of it; of one of a thousand a few days of minutes.
MOST_BYTES = 512 * 1024**2
# A machine that comes and goes each minute has its last two months.
PHASES_MOST = 100_000
_BUSY_TIMEOUT_S = 5.0
_SCHEMA = (
    "PRAGMA auto_vacuum = INCREMENTAL",
    """
    CREATE TABLE IF NOT EXISTS usage_sums (
        span_s INTEGER NOT NULL, at_s INTEGER NOT NULL, lab TEXT NOT NULL,
        lent_gpu_s REAL NOT NULL, used_gpu_s REAL NOT NULL, departures INTEGER NOT NULL,
        PRIMARY KEY (span_s, at_s, lab)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS busy_sums (
        at_s INTEGER NOT NULL, lab TEXT NOT NULL,
        watched_gpu_s REAL NOT NULL, own_gpu_s REAL NOT NULL, guest_gpu_s REAL NOT NULL,
        PRIMARY KEY (at_s, lab)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS phases (
        node TEXT NOT NULL, at_s REAL NOT NULL, phase TEXT NOT NULL, PRIMARY KEY (node, at_s)
    ) WITHOUT ROWID
    """,
    gpu_rows.SCHEMA,
)
_ADD = """
INSERT INTO usage_sums VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    lent_gpu_s = lent_gpu_s + excluded.lent_gpu_s,
    used_gpu_s = used_gpu_s + excluded.used_gpu_s,
    departures = departures + excluded.departures
"""
_ADD_BUSY = """
INSERT INTO busy_sums VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
    watched_gpu_s = watched_gpu_s + excluded.watched_gpu_s,
    own_gpu_s = own_gpu_s + excluded.own_gpu_s,
    guest_gpu_s = guest_gpu_s + excluded.guest_gpu_s
"""
_READ = """
SELECT at_s, lab, lent_gpu_s, used_gpu_s, departures FROM usage_sums
WHERE span_s = ? AND at_s >= ? ORDER BY at_s, lab
"""
_READ_PHASES = """
SELECT at_s, node, phase FROM phases AS one
WHERE at_s >= coalesce((SELECT max(at_s) FROM phases WHERE node = one.node AND at_s <= ?), 0)
ORDER BY at_s, node
"""


class SqliteUsageHistory:
    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self._path = path
        self._most_bytes = most_bytes

    def add(self, batch: HistoryBatch, *, now_s: float) -> None:
        with self._opened() as connection:
            with connection:
                _add(connection, batch)
                _forget_old(connection, now_s)
            with connection:
                while self._too_large(connection) and gpu_rows.forget_oldest(connection):
                    pass
            connection.execute("PRAGMA incremental_vacuum")

    def minutes(self, *, since_s: float) -> Sequence[UsageSum]:
        return self._read(MINUTE_S, since_s)

    def hours(self, *, since_s: float) -> Sequence[UsageSum]:
        return self._read(HOUR_S, since_s)

    def busy(self, *, since_s: float) -> Sequence[BusySum]:
        with self._opened() as connection:
            rows = connection.execute("SELECT * FROM busy_sums WHERE at_s >= ? ORDER BY at_s", (since_s,))
            return [
                BusySum(at_s=at_s, lab=lab, watched_gpu_s=watched, own_gpu_s=own, guest_gpu_s=guests)
                for at_s, lab, watched, own, guests in rows
            ]

    def gpu_minutes(self, *, since_s: float, node: str) -> Sequence[GpuPoint]:
        with self._opened() as connection:
            return list(gpu_rows.read_points(connection, gpu_rows.MINUTES, since_s, node))

    def gpu_hours(self, *, since_s: float, node: str | None = None) -> Sequence[GpuPoint]:
        with self._opened() as connection:
            return list(gpu_rows.read_points(connection, gpu_rows.HOURS, since_s, node))

    def phases(self, *, since_s: float) -> Sequence[PhaseSince]:
        with self._opened() as connection:
            rows = connection.execute(_READ_PHASES, (since_s,)).fetchall()
        return [PhaseSince(at_s=at_s, node=node, phase=phase) for at_s, node, phase in rows]

    def began_s(self) -> float | None:
        with self._opened() as connection:
            [found] = connection.execute("SELECT min(at_s) FROM usage_sums").fetchone()
        return None if found is None else float(found)

    def _read(self, span_s: int, since_s: float) -> list[UsageSum]:
        with self._opened() as connection:
            rows = connection.execute(_READ, (span_s, since_s)).fetchall()
        return [
            UsageSum(at_s=at_s, lab=lab, lent_gpu_s=lent, used_gpu_s=used, departures=departures)
            for at_s, lab, lent, used, departures in rows
        ]

    def _too_large(self, connection: sqlite3.Connection) -> bool:
        size, pages, free = (
            connection.execute(f"PRAGMA {what}").fetchone()[0]
            for what in ("page_size", "page_count", "freelist_count")
        )
        return bool(size * (pages - free) > self._most_bytes)

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            with closing(sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S)) as connection:
                for line in _SCHEMA:
                    connection.execute(line)
                yield connection
        except (sqlite3.Error, OSError, OverflowError, zlib.error) as error:
            raise HistoryFault(f"{self._path}: {error}") from error


def _add(connection: sqlite3.Connection, batch: HistoryBatch) -> None:
    sums = [
        (span_s, one.at_s - one.at_s % span_s, one.lab, one.lent_gpu_s, one.used_gpu_s, one.departures)
        for one in batch.sums
        for span_s in (MINUTE_S, HOUR_S)
    ]
    connection.executemany(_ADD, sums)
    busy = [(one.at_s, one.lab, one.watched_gpu_s, one.own_gpu_s, one.guest_gpu_s) for one in batch.busy]
    connection.executemany(_ADD_BUSY, busy)
    gpu_rows.add_points(connection, batch.points)
    connection.executemany("DELETE FROM phases WHERE node = ?", [(node,) for node in batch.forget])
    phases = [(one.node, one.at_s, one.phase) for one in batch.phases]
    connection.executemany("INSERT OR REPLACE INTO phases VALUES (?, ?, ?)", phases)


def _forget_old(connection: sqlite3.Connection, now_s: float) -> None:
    for span_s, kept_s in ((MINUTE_S, MINUTES_KEPT_S), (HOUR_S, HOURS_KEPT_S)):
        connection.execute("DELETE FROM usage_sums WHERE span_s = ? AND at_s < ?", (span_s, now_s - kept_s))
    year = (now_s - HOURS_KEPT_S,)
    connection.execute("DELETE FROM busy_sums WHERE at_s < ?", year)
    connection.execute("DELETE FROM phases WHERE at_s < ?", year)
    connection.execute(
        "DELETE FROM phases WHERE at_s < (SELECT at_s FROM phases ORDER BY at_s DESC LIMIT 1 OFFSET ?)",
        (PHASES_MOST,),
    )
    gpu_rows.forget_old(connection, now_s)
