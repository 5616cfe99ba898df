"""Between domain values and rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec
from sqlalchemy import Table

from gpunion.domain.environment import CampusEnvironment
from gpunion.domain.ids import NodeId
from gpunion.domain.image import CampusImage
from gpunion.domain.jobs.account import Account, Quota
from gpunion.domain.jobs.checkpoint import Checkpoint
from gpunion.domain.jobs.held import HeldJob
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.migration import Migration
from gpunion.domain.jobs.profile import Reliability
from gpunion.domain.jobs.run import Run
from gpunion.domain.nodes.lending import CampusMemory, Lending
from gpunion.domain.nodes.node import Node
from gpunion.domain.protocol.aside import SetAside
from gpunion.domain.protocol.commit import Commit
from gpunion.domain.protocol.decision import Record
from gpunion.domain.protocol.effects import CancelTimer, ForgetOrders, SetTimer
from gpunion.domain.protocol.events import TimerFired
from gpunion.domain.protocol.timers import text_of
from gpunion.ports.database import LoggedDecision
from gpunion.wire import codec

from . import tables

Row = dict[str, Any]
ALL_ORDERS = 2**62  # above every number an order can have
RECORD_TABLES: dict[type, Table] = {
    Job: tables.jobs,
    Run: tables.runs,
    Node: tables.nodes,
    Checkpoint: tables.checkpoints,
    Migration: tables.migrations,
    Lending: tables.lendings,
    CampusMemory: tables.campus_memories,
    Account: tables.accounts,
    Quota: tables.quotas,
    Reliability: tables.reliabilities,
    CampusImage: tables.images,
    CampusEnvironment: tables.environments,
    SetAside: tables.set_aside,
    HeldJob: tables.held_jobs,
}


def record_rows(changes: Iterable[Record]) -> dict[Table, list[Row]]:
    """The last of an id wins, so that each row is written once."""
    rows: dict[Table, dict[str, Row]] = {}
    for record in changes:
        table = RECORD_TABLES[type(record)]
        row: Row = {"id": record.id, "body": codec.encode(record).decode()}
        if "phase" in table.c:
            row["phase"] = record.phase.value  # type: ignore[union-attr]
        for column in ("job_id", "node_id"):
            if column in table.c:
                row[column] = getattr(record, column)
        rows.setdefault(table, {})[record.id] = row
    return {table: list(found.values()) for table, found in rows.items()}


def record_of(table: Table, row: Row) -> Record:
    """ValueError where it is not one of this table, or of another name."""
    record = codec.decode(row["body"])
    if RECORD_TABLES.get(type(record)) is not table or record.id != row["id"]:
        raise codec.Malformed(f"not what {table.name} keeps under {row['id']!r}")
    return cast(Record, record)


def timer_changes(commit: Commit) -> tuple[list[Row], list[Row]]:
    """Timers to set and timers to delete; the last word on each counts."""
    last: dict[str, float | None] = {}
    if isinstance(commit.event, TimerFired):
        last[text_of(commit.event.timer)] = None
    for effect in commit.decision.effects:
        if isinstance(effect, SetTimer):
            last[text_of(effect.timer)] = effect.at_s
        elif isinstance(effect, CancelTimer):
            last[text_of(effect.timer)] = None
    to_set = [{"key": key, "at_s": at_s} for key, at_s in last.items() if at_s is not None]
    gone = [{"key": key} for key, at_s in last.items() if at_s is None]
    return to_set, gone


def forgotten_orders(commit: Commit, acknowledged: Mapping[NodeId, int]) -> list[Row]:
    """Up to which number each node's orders are to be dropped. New orders of the same commit stay."""
    first_new = {numbered.node_id: numbered.seq for numbered in reversed(commit.orders)}
    up_to = dict(acknowledged)
    for effect in commit.decision.effects:
        if isinstance(effect, ForgetOrders):
            up_to[effect.node_id] = first_new.get(effect.node_id, ALL_ORDERS) - 1
    return [{"of_node": node_id, "up_to": seq} for node_id, seq in up_to.items()]


def order_rows(commit: Commit) -> tuple[list[Row], list[Row]]:
    """The orders themselves, and each node's last number."""
    orders = [
        {
            "node_id": numbered.node_id,
            "seq": numbered.seq,
            "body": codec.encode(numbered.order).decode(),
        }
        for numbered in commit.orders
    ]
    last = {numbered.node_id: numbered.seq for numbered in commit.orders}
    return orders, [{"node_id": node_id, "last_order_seq": seq} for node_id, seq in last.items()]


def log_rows(line: LoggedDecision) -> tuple[Row, list[Row]]:
    decision = {
        "seq": line.seq,
        "at_s": line.at_s,
        "event": line.event,
        "subjects": msgspec.json.encode(line.subjects).decode(),
        "reasons": msgspec.json.encode([codec.to_plain(reason) for reason in line.reasons]).decode(),
        "effects": msgspec.json.encode(line.effects).decode(),
    }
    return decision, [{"subject": subject, "seq": line.seq} for subject in line.subjects]


def logged(row: Any) -> LoggedDecision:
    """Of a row whose seal is right."""
    return LoggedDecision(
        seq=row.seq,
        at_s=row.at_s,
        event=row.event,
        subjects=tuple(msgspec.json.decode(row.subjects)),
        reasons=tuple(codec.from_plain(plain) for plain in msgspec.json.decode(row.reasons)),
        effects=tuple(msgspec.json.decode(row.effects)),
    )
