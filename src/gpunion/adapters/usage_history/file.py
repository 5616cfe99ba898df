"""The file: each call opens it and closes it again. There is one a minute, from whichever thread has time."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from gpunion.adapters.usage_history import gpu_rows, keeping, open_machines, sums
from gpunion.adapters.usage_history.damage import Damage
from gpunion.ports.usage_history import (
    HOUR_S,
    MINUTE_S,
    BusySum,
    GpuPoint,
    HistoryBatch,
    HistoryFault,
    PhaseSince,
    PointsAsked,
    PointsTold,
    UsageSum,
)

# A year of a campus of fifty machines has a fifth of it; of one of a thousand a few days of minutes.
MOST_BYTES = 512 * 1024**2
_BUSY_TIMEOUT_S = 5.0
_SCHEMA = (
    "PRAGMA auto_vacuum = INCREMENTAL",
    "PRAGMA temp_store = MEMORY",
    *sums.SCHEMA,
    *open_machines.SCHEMA,
    gpu_rows.SCHEMA,
    keeping.SCHEMA,
)
# 1: it says which machines are open, also those of which a file of before had phases.
_VERSION = 1


class SqliteUsageHistory:
    def __init__(
        self, path: Path, most_bytes: int = MOST_BYTES, follows_s: float = keeping.FOLLOWS_S
    ) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._follows_s = follows_s
        self._damage = Damage()

    def add(self, batch: HistoryBatch) -> None:
        with self._opened() as connection, _whole(connection):
            if connection.execute("PRAGMA user_version").fetchone()[0] < _VERSION:
                open_machines.those_of_before(connection)
                connection.execute(f"PRAGMA user_version = {_VERSION}")
            keeping.begin_clock(connection)
            sums.add_sums(connection, batch.sums, self._damage)
            sums.add_busy(connection, batch.busy, self._damage)
            open_machines.note_open(connection, batch, self._damage)
            gpu_rows.add_points(connection, batch.points, self._damage)

    def forget_old(self, *, now_s: float) -> None:
        with self._opened() as connection:
            with _whole(connection):
                keeping.forget_old(connection, now_s, self._follows_s)
            with _whole(connection):
                keeping.make_room(connection, self._most_bytes)
            keeping.give_back(connection)

    def minutes(self, *, since_s: float, until_s: float) -> Sequence[UsageSum]:
        with self._opened() as connection:
            return sums.read_sums(connection, MINUTE_S, since_s, until_s, self._damage)

    def hours(self, *, since_s: float, until_s: float) -> Sequence[UsageSum]:
        with self._opened() as connection:
            return sums.read_sums(connection, HOUR_S, since_s, until_s, self._damage)

    def busy(self, *, since_s: float, until_s: float) -> Sequence[BusySum]:
        with self._opened() as connection:
            return sums.read_busy(connection, since_s, until_s, self._damage)

    def points(self, asked: PointsAsked) -> PointsTold:
        with self._opened() as connection:
            hidden = open_machines.noted_open(connection) - set(asked.open)
            newest = gpu_rows.newest_points(connection, asked, hidden, self._damage)
            return _as_many(list(islice(newest, asked.most + 1)), asked)

    def phases(self, *, since_s: float, until_s: float, open: Collection[str]) -> Sequence[PhaseSince]:
        with self._opened() as connection:
            return open_machines.read_phases(connection, since_s, until_s, open, self._damage)

    def began_s(self) -> float | None:
        with self._opened() as connection:
            return sums.began_s(connection)

    def damaged_rows(self) -> int:
        return self._damage.rows

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Whatever may lie in that file, and however it is met: it is a fault of the history, and no more."""
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            with closing(
                sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
            ) as connection:
                connection.text_factory = _text
                for line in _SCHEMA:
                    connection.execute(line)
                yield connection
        except Exception as error:
            raise HistoryFault(f"{self._path}: {error}") from error


@contextmanager
def _whole(connection: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing: what is not committed in the end goes with the connection."""
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("COMMIT")


def _as_many(newest: list[GpuPoint], asked: PointsAsked) -> PointsTold:
    """The oldest moment of which some would be left out is left out whole, unless it is the only one."""
    if len(newest) <= asked.most:
        return PointsTold(points=newest[::-1], since_s=asked.since_s, left_out=False)
    edge_s = newest[-1].at_s
    whole = [one for one in newest if one.at_s > edge_s]
    points, since_s = (whole, edge_s + asked.point_s) if whole else (newest[: asked.most], edge_s)
    return PointsTold(points=points[::-1], since_s=max(asked.since_s, float(since_s)), left_out=True)


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
