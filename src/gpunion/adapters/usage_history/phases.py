"""When machines come and go whose owners said `figures = "full"`."""

from __future__ import annotations

import sqlite3

from gpunion.adapters.usage_history.damage import Damage
from gpunion.ports.usage_history import HistoryBatch, PhaseSince

SCHEMA = (
    """
    CREATE TABLE IF NOT EXISTS phases (
        node TEXT NOT NULL, at_s REAL NOT NULL, phase TEXT NOT NULL, PRIMARY KEY (node, at_s)
    ) WITHOUT ROWID
    """,
)
# Fourteen changes a day for a year. One that comes and goes each minute has its last days, and takes nobody
# else's.
PHASES_A_NODE = 5_000
_READ = """
SELECT at_s, node, phase FROM phases WHERE at_s > :since_s AND at_s <= :until_s
UNION ALL SELECT max(at_s), node, phase FROM phases WHERE at_s <= :since_s GROUP BY node
ORDER BY 1, 2
"""
# The one that it was in when that time began is of that time.
_FORGET_OLD = """
DELETE FROM phases WHERE at_s < :before_s AND at_s < (
    SELECT max(at_s) FROM phases AS last WHERE last.node = phases.node AND last.at_s <= :before_s)
"""
_FORGET_MOST = """
DELETE FROM phases WHERE node = :node AND at_s < (
    SELECT at_s FROM phases WHERE node = :node ORDER BY at_s DESC LIMIT 1 OFFSET :most - 1)
"""


def note_phases(connection: sqlite3.Connection, batch: HistoryBatch, damage: Damage) -> None:
    connection.executemany("DELETE FROM phases WHERE node = ?", [(node,) for node in batch.forget])
    rows = ((one.node, one.at_s, one.phase) for one in batch.phases)
    damage.put_each(connection, "INSERT OR REPLACE INTO phases VALUES (?, ?, ?)", rows)
    for node in {one.node for one in batch.phases}:
        connection.execute(_FORGET_MOST, {"node": node, "most": PHASES_A_NODE})


def read_phases(
    connection: sqlite3.Connection, since_s: float, until_s: float, damage: Damage
) -> list[PhaseSince]:
    rows = connection.execute(_READ, {"since_s": since_s, "until_s": until_s}).fetchall()
    return [
        PhaseSince(at_s=at_s, node=node, phase=phase)
        for at_s, node, phase in damage.sound("phase", rows, str, str)
    ]


def forget_phases(connection: sqlite3.Connection, before_s: float) -> None:
    connection.execute(_FORGET_OLD, {"before_s": before_s})
