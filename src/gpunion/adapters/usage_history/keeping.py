"""How long things stay in the file, and how much of them."""

from __future__ import annotations

import sqlite3

from gpunion.adapters.usage_history import gpu_rows
from gpunion.adapters.usage_history.damage import is_moment
from gpunion.adapters.usage_history.open_machines import forget_phases
from gpunion.adapters.usage_history.sums import forget_busy, forget_sums
from gpunion.limits import MOMENT_MAX_S
from gpunion.ports.usage_history import HOUR_S, HOURS_KEPT_S, MINUTE_S, MINUTES_KEPT_S

# What is old goes by a clock of the file's own. It follows the coordinator's by at most so much at a time,
# which is once a minute: where a coordinator starts with its clock two years ahead the history does not lose
# a year at once, and who notices within hours has lost nothing but some old minutes. Where one was off for a
# month it has caught up in three days.
FOLLOWS_S = 600.0
# Who asks for all the minutes there are is answered a moment later.
SLACK_S = 2.0 * MINUTE_S
# What is removed at a time where there is no more room, and what is given back to the disk: a write that
# takes long keeps others from reading.
ROUNDS_MOST = 20
PAGES_AT_ONCE = 8_192
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS own_clock"
    " (one INTEGER PRIMARY KEY CHECK (one = 1), now_s REAL NOT NULL) WITHOUT ROWID"
)
_SET = "INSERT OR REPLACE INTO own_clock VALUES (1, ?)"


def begin_clock(connection: sqlite3.Connection) -> None:
    """Before anything is written: where it does not stand, it begins with the newest that was known."""
    if _stands_at_s(connection) is None:
        newest = "SELECT max(at_s) FROM usage_sums WHERE span_s = ? AND at_s <= ?"
        [found] = connection.execute(newest, (MINUTE_S, MOMENT_MAX_S)).fetchone()
        if found is not None:
            connection.execute(_SET, (found,))


def forget_old(connection: sqlite3.Connection, now_s: float, follows_s: float) -> None:
    """A clock that goes back takes nothing with it: the file's own waits for it."""
    stands_at_s = _stands_at_s(connection)
    if stands_at_s is None:
        stands_at_s = now_s
    stands_at_s = max(stands_at_s, min(now_s, stands_at_s + follows_s))
    connection.execute(_SET, (stands_at_s,))
    at_s = min(now_s, stands_at_s)
    forget_sums(connection, MINUTE_S, at_s - MINUTES_KEPT_S - SLACK_S)
    forget_sums(connection, HOUR_S, at_s - HOURS_KEPT_S)
    forget_busy(connection, at_s - HOURS_KEPT_S)
    forget_phases(connection, at_s - HOURS_KEPT_S)
    for span in (gpu_rows.MINUTES, gpu_rows.HOURS):
        gpu_rows.forget_points(connection, span, at_s - span.kept_s - SLACK_S)


def make_room(connection: sqlite3.Connection, most_bytes: int) -> None:
    for _ in range(ROUNDS_MOST):
        if not _too_large(connection, most_bytes) or not gpu_rows.forget_oldest(connection):
            return


def give_back(connection: sqlite3.Connection) -> None:
    """A page a step, and only a script is gone through to its end."""
    connection.executescript(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})")


def _stands_at_s(connection: sqlite3.Connection) -> float | None:
    found = connection.execute("SELECT now_s FROM own_clock").fetchone()
    return found[0] if found is not None and is_moment(found[0]) else None


def _too_large(connection: sqlite3.Connection, most_bytes: int) -> bool:
    size, pages, free = (
        connection.execute(f"PRAGMA {what}").fetchone()[0]
        for what in ("page_size", "page_count", "freelist_count")
    )
    return bool(size * (pages - free) > most_bytes)
