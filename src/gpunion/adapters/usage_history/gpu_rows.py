"""What GPUs did, packed: a row an hour with its minutes, and a row a day with its hours.

A row a minute would be a hundred times as large: most of it would be the names.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from gpunion.adapters.usage_history.damage import OF_VALUES, Damage
from gpunion.adapters.usage_history.packed_points import (
    Slot,
    Unreadable,
    both,
    packed,
    slot_at,
    unpacked,
)
from gpunion.ports.usage_history import (
    HOUR_S,
    HOURS_KEPT_S,
    MINUTE_S,
    MINUTES_KEPT_S,
    GpuPoint,
    PointsAsked,
)

TABLE = "gpu_rows"
SCHEMA = """
CREATE TABLE IF NOT EXISTS gpu_rows (
    span_s INTEGER NOT NULL, at_s INTEGER NOT NULL, node TEXT NOT NULL, gpu INTEGER NOT NULL,
    uuid TEXT NOT NULL, model TEXT NOT NULL, points BLOB NOT NULL,
    PRIMARY KEY (span_s, at_s, node, gpu)
) WITHOUT ROWID
"""
_PUT = "INSERT OR REPLACE INTO gpu_rows VALUES (?, ?, ?, ?, ?, ?, ?)"
_GET = "SELECT points FROM gpu_rows WHERE span_s = ? AND at_s = ? AND node = ? AND gpu = ?"
_NEWEST = "SELECT max(at_s) FROM gpu_rows WHERE span_s = ? AND at_s <= ?"
_READ = "SELECT node, gpu, uuid, model, points FROM gpu_rows WHERE span_s = ? AND at_s = ?"
# As much of the oldest at a time, where there is no more room.
_ROWS_AT_ONCE = 2_000

_Key = tuple[int, str, int]


@dataclass(frozen=True, slots=True)
class Span:
    """Points of `point_s` each, all those of `row_s` in one row."""

    point_s: int
    row_s: int
    kept_s: int

    @property
    def slots(self) -> int:
        return self.row_s // self.point_s


@dataclass(frozen=True, slots=True)
class _Row:
    node: str
    index: int
    uuid: str
    model: str
    data: bytes


MINUTES = Span(MINUTE_S, HOUR_S, MINUTES_KEPT_S)
HOURS = Span(HOUR_S, 24 * HOUR_S, HOURS_KEPT_S)
SPANS = {span.point_s: span for span in (MINUTES, HOURS)}


def add_points(connection: sqlite3.Connection, points: Iterable[GpuPoint], damage: Damage) -> None:
    for span in (MINUTES, HOURS):
        rows = defaultdict[_Key, list[GpuPoint]](list)
        for point in points:
            rows[point.at_s // span.row_s * span.row_s, point.node, point.index].append(point)
        together = (_together(connection, span, key, new, damage) for key, new in rows.items())
        damage.put_each(connection, _PUT, (row for row in together if row is not None))


def _together(
    connection: sqlite3.Connection, span: Span, key: _Key, new: list[GpuPoint], damage: Damage
) -> tuple[object, ...] | None:
    """The whole row, with what it had. None: what came cannot be written."""
    try:
        slots = _slots(connection, span, key, damage)
        for point in new:
            at = point.at_s % span.row_s // span.point_s
            slots[at] = both(slots[at], Slot.of(point))
        return (span.point_s, *key, new[-1].uuid, new[-1].model, packed(slots))
    except OF_VALUES:
        damage.met("given", span.point_s, *key)
        return None


def _slots(connection: sqlite3.Connection, span: Span, key: _Key, damage: Damage) -> list[Slot | None]:
    found = connection.execute(_GET, (span.point_s, *key)).fetchone()
    if found is not None:
        try:
            data = unpacked(found[0], span.slots)
        except Unreadable:
            damage.met(TABLE, span.point_s, *key)  # it begins anew, and nobody else's with it
        else:
            return [slot_at(data, number) for number in range(span.slots)]
    return [None] * span.slots


def newest_points(
    connection: sqlite3.Connection, asked: PointsAsked, hidden: AbstractSet[str], damage: Damage
) -> Iterator[GpuPoint]:
    """The newest first, of all GPUs, for as long as anybody asks: never more than one row of each is held."""
    span, at_s = SPANS[asked.point_s], asked.until_s
    while (found := connection.execute(_NEWEST, (span.point_s, at_s)).fetchone()[0]) is not None:
        if found + span.row_s <= asked.since_s:
            return
        rows = _rows(connection, span, found, asked, damage)
        rows = [row for row in rows if row.node not in hidden]
        for number in reversed(range(span.slots)):
            point_at_s = found + number * span.point_s
            if asked.since_s - span.point_s < point_at_s <= asked.until_s:
                slots = ((row, slot_at(row.data, number)) for row in rows)
                yield from (
                    slot.point(point_at_s, row.node, row.index, row.uuid, row.model)
                    for row, slot in slots
                    if slot is not None
                )
        at_s = found - 1


def _rows(
    connection: sqlite3.Connection, span: Span, at_s: int, asked: PointsAsked, damage: Damage
) -> list[_Row]:
    """Each has a point at least: more rows than points may be told are not needed."""
    which, words = ("", ()) if asked.node is None else (" AND node = ?", (asked.node,))
    rows = connection.execute(
        f"{_READ}{which} ORDER BY node, gpu LIMIT ?", (span.point_s, at_s, *words, asked.most + 1)
    ).fetchall()
    found = []
    for row in rows:
        try:
            data = unpacked(row[-1], span.slots)
        except Unreadable:
            damage.met(TABLE, span.point_s, at_s, *row[:2])
            continue
        if all(map(isinstance, row[:-1], (str, int, str, str))):
            node, index, uuid, model, _ = row
            found.append(_Row(node, index, uuid, model, data))
        else:
            damage.met(TABLE, span.point_s, at_s, *row[:2])
    return found


def forget_points(connection: sqlite3.Connection, span: Span, before_s: float) -> None:
    old = (span.point_s, before_s - span.row_s)
    connection.execute("DELETE FROM gpu_rows WHERE span_s = ? AND at_s < ?", old)


def forget_oldest(connection: sqlite3.Connection) -> bool:
    """Minutes first. Whether there was anything."""
    for span in (MINUTES, HOURS):
        gone = connection.execute(
            "DELETE FROM gpu_rows WHERE (span_s, at_s, node, gpu) IN"
            " (SELECT span_s, at_s, node, gpu FROM gpu_rows WHERE span_s = ? ORDER BY at_s LIMIT ?)",
            (span.point_s, _ROWS_AT_ONCE),
        )
        if gone.rowcount:
            return True
    return False
