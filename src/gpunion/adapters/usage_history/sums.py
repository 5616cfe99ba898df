"""Sums of labs: how much was lent and used by the minute and by the hour, and how much GPUs worked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from gpunion.adapters.usage_history.damage import Damage
from gpunion.limits import MOMENT_MAX_S
from gpunion.ports.usage_history import HOUR_S, MINUTE_S, BusySum, UsageSum

SCHEMA = (
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
WHERE span_s = ? AND at_s BETWEEN ? AND ? ORDER BY at_s, lab
"""
_READ_BUSY = """
SELECT at_s, lab, watched_gpu_s, own_gpu_s, guest_gpu_s FROM busy_sums
WHERE at_s BETWEEN ? AND ? ORDER BY at_s, lab
"""

_BEGAN = "SELECT min(at_s) FROM usage_sums WHERE span_s = ? AND at_s BETWEEN 0 AND ?"


def began_s(connection: sqlite3.Connection) -> float | None:
    """To the minute, as long as the first minute is kept: the first hour began before it."""
    minute, hour = (
        connection.execute(_BEGAN, (span_s, MOMENT_MAX_S)).fetchone()[0] for span_s in (MINUTE_S, HOUR_S)
    )
    kept = minute is not None and (hour is None or minute - hour < HOUR_S)
    found = minute if kept else hour
    return None if found is None else float(found)


def add_sums(connection: sqlite3.Connection, sums: Iterable[UsageSum], damage: Damage) -> None:
    rows = (
        (span_s, one.at_s - one.at_s % span_s, one.lab, one.lent_gpu_s, one.used_gpu_s, one.departures)
        for one in sums
        for span_s in (MINUTE_S, HOUR_S)
    )
    damage.put_each(connection, _ADD, rows)


def add_busy(connection: sqlite3.Connection, sums: Iterable[BusySum], damage: Damage) -> None:
    rows = ((one.at_s, one.lab, one.watched_gpu_s, one.own_gpu_s, one.guest_gpu_s) for one in sums)
    damage.put_each(connection, _ADD_BUSY, rows)


def read_sums(
    connection: sqlite3.Connection, span_s: int, since_s: float, until_s: float, damage: Damage
) -> list[UsageSum]:
    rows = connection.execute(_READ, (span_s, since_s, until_s)).fetchall()
    return [
        UsageSum(at_s=at_s, lab=lab, lent_gpu_s=lent, used_gpu_s=used, departures=departures)
        for at_s, lab, lent, used, departures in damage.sound("sum", rows, str, float, float, int)
    ]


def read_busy(
    connection: sqlite3.Connection, since_s: float, until_s: float, damage: Damage
) -> list[BusySum]:
    rows = connection.execute(_READ_BUSY, (since_s, until_s)).fetchall()
    return [
        BusySum(at_s=at_s, lab=lab, watched_gpu_s=watched, own_gpu_s=own, guest_gpu_s=guests)
        for at_s, lab, watched, own, guests in damage.sound("busy", rows, str, float, float, float)
    ]


def forget_sums(connection: sqlite3.Connection, span_s: int, before_s: float) -> None:
    connection.execute("DELETE FROM usage_sums WHERE span_s = ? AND at_s < ?", (span_s, before_s))


def forget_busy(connection: sqlite3.Connection, before_s: float) -> None:
    connection.execute("DELETE FROM busy_sums WHERE at_s < ?", (before_s,))
