"""How long things stay in the file, and how much of them."""

from __future__ import annotations

import sqlite3

from gpunion.adapters.usage_history import gpu_rows
from gpunion.adapters.usage_history.phases import forget_phases
from gpunion.adapters.usage_history.sums import forget_busy, forget_sums
from gpunion.ports.usage_history import HOUR_S, HOURS_KEPT_S, MINUTE_S, MINUTES_KEPT_S

# Who asks for all the minutes there are is answered a moment later.
SLACK_S = 2.0 * MINUTE_S
# What is removed at a time where there is no more room, and what is given back to the disk: a write that
# takes long keeps others from reading.
ROUNDS_MOST = 20
PAGES_AT_ONCE = 8_192


def forget_old(connection: sqlite3.Connection, now_s: float) -> None:
    forget_sums(connection, MINUTE_S, now_s - MINUTES_KEPT_S - SLACK_S)
    forget_sums(connection, HOUR_S, now_s - HOURS_KEPT_S)
    forget_busy(connection, now_s - HOURS_KEPT_S)
    forget_phases(connection, now_s - HOURS_KEPT_S)
    for span in (gpu_rows.MINUTES, gpu_rows.HOURS):
        gpu_rows.forget_points(connection, span, now_s - span.kept_s - SLACK_S)


def make_room(connection: sqlite3.Connection, most_bytes: int) -> None:
    for _ in range(ROUNDS_MOST):
        if not _too_large(connection, most_bytes) or not gpu_rows.forget_oldest(connection):
            return


def give_back(connection: sqlite3.Connection) -> None:
    """A page a step, and only a script is gone through to its end."""
    connection.executescript(f"PRAGMA incremental_vacuum({PAGES_AT_ONCE})")


def _too_large(connection: sqlite3.Connection, most_bytes: int) -> bool:
    size, pages, free = (
        connection.execute(f"PRAGMA {what}").fetchone()[0]
        for what in ("page_size", "page_count", "freelist_count")
    )
    return bool(size * (pages - free) > most_bytes)
