"""One commit as a short list of statements, prepared once so that the hot path only fills in rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import bindparam, delete, insert, update
from sqlalchemy.sql.expression import Executable

from gpunion.domain.commit import Commit
from gpunion.domain.events import JobSubmitted
from gpunion.domain.ids import NodeId
from gpunion.ports.store import LoggedDecision

from . import rows, tables
from .engines import Engines

Write = tuple[Executable, list[dict[str, Any]]]

# The fence: a coordinator whose term is over changes no row here, and then nothing at all.
FENCE = (
    update(tables.leader)
    .where(tables.leader.c.term == bindparam("own_term"))
    .values(newest_s=bindparam("at_s"))
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
        self._put_records = {table: engines.upsert(table) for table in rows.RECORD_TABLES.values()}
        self._put_timers = engines.upsert(tables.timers)
        self._put_channels = engines.upsert(tables.channels)
        self._put_mark = engines.upsert(tables.marks)

    def of(
        self, commit: Commit, line: LoggedDecision | None, acknowledged: Mapping[NodeId, int]
    ) -> Iterator[Write]:
        """Only statements that have rows."""
        return (write for write in self._all(commit, line, acknowledged) if write[1])

    def _all(
        self, commit: Commit, line: LoggedDecision | None, acknowledged: Mapping[NodeId, int]
    ) -> Iterator[Write]:
        for table, changed in rows.record_rows(commit.decision.changes).items():
            yield self._put_records[table], changed
        to_set, gone = rows.timer_changes(commit)
        yield self._put_timers, to_set
        yield _DROP_TIMERS, gone
        yield _DROP_ORDERS, rows.forgotten_orders(commit, acknowledged)
        orders, channels = rows.order_rows(commit)
        yield _ADD_ORDERS, orders
        yield self._put_channels, channels
        if commit.mark is not None:
            yield self._put_mark, [asdict(commit.mark)]
        if line is not None:
            decision, subjects = rows.log_rows(line)
            yield _ADD_DECISION, [decision]
            yield _ADD_SUBJECTS, subjects
        if commit.idempotency_key is not None and isinstance(commit.event, JobSubmitted):
            key = {"key": commit.idempotency_key, "job_id": commit.event.job_id, "at_s": commit.at_s}
            yield _ADD_KEY, [key]
