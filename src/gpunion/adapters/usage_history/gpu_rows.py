"""What GPUs did, packed: a row an hour with its minutes, and a row a day with its hours.

A row a minute would be a hundred times as large: most of it would be the names.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpunion.ports.usage_history import (
    HOUR_S,
    HOURS_KEPT_S,
    MINUTE_S,
    MINUTES_KEPT_S,
    GpuPoint,
)

SCHEMA = """
CREATE TABLE IF NOT EXISTS gpu_rows (
    span_s INTEGER NOT NULL, at_s INTEGER NOT NULL, node TEXT NOT NULL, gpu INTEGER NOT NULL,
    uuid TEXT NOT NULL, model TEXT NOT NULL, points BLOB NOT NULL,
    PRIMARY KEY (span_s, at_s, node, gpu)
) WITHOUT ROWID
"""
# Seen seconds, watts, and in a byte each: utilisation, memory, degrees.
_POINT = struct.Struct("<HHBBB")
_NONE_W, _NONE = 0xFFFF, 0xFF
_STEPS = 250.0  # of a share
_COLDEST_C = -50.0
_FASTEST = 1  # zlib: most of a row is nothing at all, which any level sees
_PUT = "INSERT OR REPLACE INTO gpu_rows VALUES (?, ?, ?, ?, ?, ?, ?)"
_GET = "SELECT points FROM gpu_rows WHERE span_s = ? AND at_s = ? AND node = ? AND gpu = ?"
# As much of the oldest at a time, where there is no more room.
_ROWS_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class Span:
    """Points of `point_s` each, all those of `row_s` in one row."""

    point_s: int
    row_s: int
    kept_s: int


MINUTES = Span(MINUTE_S, HOUR_S, MINUTES_KEPT_S)
HOURS = Span(HOUR_S, 24 * HOUR_S, HOURS_KEPT_S)


def add_points(connection: sqlite3.Connection, points: Iterable[GpuPoint]) -> None:
    for span in (MINUTES, HOURS):
        rows = defaultdict[tuple[int, str, int], list[GpuPoint]](list)
        for point in points:
            rows[point.at_s // span.row_s * span.row_s, point.node, point.index].append(point)
        for key, new in rows.items():
            found = connection.execute(_GET, (span.point_s, *key)).fetchone()
            empty: list[_Slot | None] = [None] * (span.row_s // span.point_s)
            slots = _unpacked(found[0], span) if found else empty
            for point in new:
                at = point.at_s % span.row_s // span.point_s
                slots[at] = _both(slots[at], _Slot.of(point))
            row = (span.point_s, *key, new[-1].uuid, new[-1].model, _packed(slots))
            connection.execute(_PUT, row)


def read_points(
    connection: sqlite3.Connection, span: Span, since_s: float, node: str | None
) -> Iterator[GpuPoint]:
    first_s = int(since_s) // span.row_s * span.row_s
    which, words = ("", ()) if node is None else (" AND node = ?", (node,))
    rows = connection.execute(
        f"SELECT at_s, node, gpu, uuid, model, points FROM gpu_rows"
        f" WHERE span_s = ? AND at_s >= ?{which} ORDER BY node, gpu, at_s",
        (span.point_s, first_s, *words),
    )
    for row_s, name, index, uuid, model, packed in rows:
        for number, slot in enumerate(_unpacked(packed, span)):
            at_s = row_s + number * span.point_s
            if slot is not None and at_s + span.point_s > since_s:
                yield slot.point(at_s, name, index, uuid, model)


def forget_old(connection: sqlite3.Connection, now_s: float) -> None:
    for span in (MINUTES, HOURS):
        old = (span.point_s, now_s - span.kept_s - span.row_s)
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


@dataclass(frozen=True, slots=True)
class _Slot:
    seen_s: float
    utilisation: float | None
    memory_share: float | None
    temperature_c: float | None
    power_w: float | None

    @classmethod
    def of(cls, point: GpuPoint) -> _Slot:
        return cls(point.seen_s, point.utilisation, point.memory_share, point.temperature_c, point.power_w)

    def point(self, at_s: int, node: str, index: int, uuid: str, model: str) -> GpuPoint:
        return GpuPoint(
            at_s=at_s,
            node=node,
            index=index,
            uuid=uuid,
            model=model,
            seen_s=self.seen_s,
            utilisation=self.utilisation,
            memory_share=self.memory_share,
            temperature_c=self.temperature_c,
            power_w=self.power_w,
        )


def _both(one: _Slot | None, other: _Slot) -> _Slot:
    if one is None:
        return other
    return _Slot(
        one.seen_s + other.seen_s,
        _mean(one, other),
        _most(one.memory_share, other.memory_share),
        _most(one.temperature_c, other.temperature_c),
        _most(one.power_w, other.power_w),
    )


def _mean(one: _Slot, other: _Slot) -> float | None:
    if one.utilisation is None or other.utilisation is None:
        return _most(one.utilisation, other.utilisation)
    seen_s = one.seen_s + other.seen_s
    busy_s = one.utilisation * one.seen_s + other.utilisation * other.seen_s
    return busy_s / seen_s if seen_s else one.utilisation


def _most(one: float | None, other: float | None) -> float | None:
    known = [each for each in (one, other) if each is not None]
    return max(known, default=None)


def _packed(slots: Sequence[_Slot | None]) -> bytes:
    return zlib.compress(b"".join(map(_slot_bytes, slots)), _FASTEST)


def _slot_bytes(slot: _Slot | None) -> bytes:
    if slot is None:
        return bytes(_POINT.size)
    warm = None if slot.temperature_c is None else (slot.temperature_c - _COLDEST_C) / _STEPS
    watts = _NONE_W if slot.power_w is None else min(_NONE_W - 1, max(0, round(slot.power_w)))
    return _POINT.pack(
        min(0xFFFF, max(1, round(slot.seen_s))),
        watts,
        _share_byte(slot.utilisation),
        _share_byte(slot.memory_share),
        _share_byte(warm),
    )


def _share_byte(share: float | None) -> int:
    return _NONE if share is None else round(min(1.0, max(0.0, share)) * _STEPS)


def _unpacked(packed: bytes, span: Span) -> list[_Slot | None]:
    data = zlib.decompress(packed)
    if len(data) != _POINT.size * (span.row_s // span.point_s):
        raise sqlite3.DatabaseError("a row of GPUs' figures has another length")
    return [_slot(*fields) for fields in _POINT.iter_unpack(data)]


def _slot(seen_s: int, watts: int, busy: int, memory: int, warm: int) -> _Slot | None:
    if not seen_s:
        return None
    return _Slot(
        seen_s,
        _share(busy),
        _share(memory),
        None if warm == _NONE else warm + _COLDEST_C,
        None if watts == _NONE_W else watts,
    )


def _share(byte: int) -> float | None:
    return None if byte == _NONE else byte / _STEPS
