"""One commit as a short list of statements, prepared once so that the hot path only fills in rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import Table, bindparam, delete, insert, update
from sqlalchemy.sql.expression import Executable

from gpunion.domain.ids import NodeId
from gpunion.domain.protocol.commit import Commit
from gpunion.domain.protocol.events import JobSubmitted
from gpunion.ports.database import LoggedDecision

from . import rows, tables
from .engines import Engines
from .seals import Entry, key_of

Write = tuple[Executable, list[dict[str, Any]]]

# The fence: a coordinator whose term is over changes no row here, and then nothing at all.
FENCE = (
    update(tables.leader)
    .where(tables.leader.c.term == bindparam("own_term"))
    .values({c.name: bindparam(c.name) for c in tables.leader.c if c.name not in ("id", "term")})
)
_DROP_TIMERS = delete(tables.timers).where(tables.timers.c.key == bindparam("gone"))
_DROP_ORDERS = delete(tables.orders).where(
    tables.orders.c.node_id == bindparam("of_node"), tables.orders.c.seq <= bindparam("up_to")
)
_ADD_ORDERS = insert(tables.orders)
_ADD_DECISION = insert(tables.decisions)
_ADD_SUBJECTS = insert(tables.log_subjects)
_ADD_KEY = insert(tables.idempotency)


class Writing:
    def __init__(self, engines: Engines) -> None:
        self._puts = {table: engines.upsert(table) for table in tables.COUNTED}

    def put(self, entry: Entry, table: Table, found: list[dict[str, Any]]) -> Write:
        return self._puts[table], entry.put(table, found)

    def of(
        self, entry: Entry, commit: Commit, line: LoggedDecision | None, acknowledged: Mapping[NodeId, int]
    ) -> Iterator[Write]:
        """Only statements that have rows."""
        return (write for write in self._all(entry, commit, line, acknowledged) if write[1])

    def _all(
        self, entry: Entry, commit: Commit, line: LoggedDecision | None, acknowledged: Mapping[NodeId, int]
    ) -> Iterator[Write]:
        for table, changed in rows.record_rows(commit.decision.changes).items():
            yield self.put(entry, table, changed)
        to_set, gone = rows.timer_changes(commit)
        yield self.put(entry, tables.timers, to_set)
        entry.drop(tables.timers, [key_of(tables.timers, row) for row in gone])
        yield _DROP_TIMERS, [{"gone": row["key"]} for row in gone]
        forgotten = rows.forgotten_orders(commit, acknowledged)
        for row in forgotten:
            entry.drop_orders(row["of_node"], row["up_to"])
        yield _DROP_ORDERS, forgotten
        orders, channels = rows.order_rows(commit)
        yield _ADD_ORDERS, entry.put(tables.orders, orders)
        yield self.put(entry, tables.channels, channels)
        if commit.mark is not None:
            yield self.put(entry, tables.marks, [asdict(commit.mark)])
        if line is not None:
            decision, subjects = rows.log_rows(line)
            yield _ADD_DECISION, entry.put(tables.decisions, [decision])
            yield _ADD_SUBJECTS, subjects
        if commit.idempotency_key is not None and isinstance(commit.event, JobSubmitted):
            key = {"key": commit.idempotency_key, "job_id": commit.event.job_id, "at_s": commit.at_s}
            yield _ADD_KEY, entry.put(tables.idempotency, [key])
