"""When machines come and go whose owners said `figures = "full"`, and which machines these are.

Who they are is kept beside what is kept of them: a coordinator that was not there when an owner took it back,
or could not write, sees at its next write of whom there is something that nobody may have any more.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

from gpunion.adapters.usage_history import gpu_rows
from gpunion.adapters.usage_history.damage import Damage
from gpunion.ports.usage_history import HistoryBatch, PhaseSince

SCHEMA = (
    """
    CREATE TABLE IF NOT EXISTS phases (
        node TEXT NOT NULL, at_s REAL NOT NULL, phase TEXT NOT NULL, PRIMARY KEY (node, at_s)
    ) WITHOUT ROWID
    """,
    "CREATE TABLE IF NOT EXISTS open_machines (node TEXT PRIMARY KEY) WITHOUT ROWID",
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


def note_open(connection: sqlite3.Connection, batch: HistoryBatch, damage: Damage) -> None:
    """What is new of them; of those who are it no more whatever there is goes. Of their GPUs guests' figures
    cannot be told apart from their owner's any more, so these go as well."""
    connection.execute("CREATE TEMP TABLE going (node TEXT PRIMARY KEY)")
    connection.executemany("INSERT OR IGNORE INTO going VALUES (?)", [(node,) for node in batch.forget])
    _forget_those_going(connection)
    known = {*batch.open, *(one.node for one in batch.phases)}
    damage.put_each(connection, "INSERT OR IGNORE INTO open_machines VALUES (?)", [(one,) for one in known])
    rows = ((one.node, one.at_s, one.phase) for one in batch.phases)
    damage.put_each(connection, "INSERT OR REPLACE INTO phases VALUES (?, ?, ?)", rows)
    for node in {one.node for one in batch.phases}:
        connection.execute(_FORGET_MOST, {"node": node, "most": PHASES_A_NODE})
    connection.execute("INSERT INTO going SELECT node FROM open_machines")
    connection.executemany("DELETE FROM going WHERE node = ?", [(node,) for node in batch.open])
    _forget_those_going(connection)


def _forget_those_going(connection: sqlite3.Connection) -> None:
    """By the database alone: a name that is no text any more is a name as well."""
    if connection.execute("SELECT 1 FROM going LIMIT 1").fetchone():
        for table in ("phases", gpu_rows.TABLE, "open_machines"):
            connection.execute(f"DELETE FROM {table} WHERE node IN (SELECT node FROM going)")
        connection.execute("DELETE FROM going")


def those_of_before(connection: sqlite3.Connection) -> None:
    """In a file that did not say who they are: each had a phase."""
    connection.execute("INSERT OR IGNORE INTO open_machines SELECT DISTINCT node FROM phases")


def noted_open(connection: sqlite3.Connection) -> set[str]:
    return {node for (node,) in connection.execute("SELECT node FROM open_machines")}


def read_phases(
    connection: sqlite3.Connection, since_s: float, until_s: float, open: Collection[str], damage: Damage
) -> list[PhaseSince]:
    rows = connection.execute(_READ, {"since_s": since_s, "until_s": until_s}).fetchall()
    now_open = set(open)
    return [
        PhaseSince(at_s=at_s, node=node, phase=phase)
        for at_s, node, phase in damage.sound("phase", rows, str, str)
        if node in now_open
    ]


def forget_phases(connection: sqlite3.Connection, before_s: float) -> None:
    connection.execute(_FORGET_OLD, {"before_s": before_s})
