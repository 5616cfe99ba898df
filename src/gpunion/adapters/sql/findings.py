"""From a database as it is found to what a coordinator may go on with.

Rows that cannot be read hold the job they are of, or make their machine greet anew, or are a memory that may
begin again. Everything else is a reason to refuse: who may call, quotas, marks of folders, and whatever is
gone without anybody being able to say what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from dataclasses import replace as changed
from typing import Any

from sqlalchemy import Table

from gpunion.domain.ids import JobId, NodeId, checkpoint_id, migration_id, run_id
from gpunion.domain.jobs.held import HeldJob
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.run import Run
from gpunion.domain.nodes.node import Node, NodeFacts, NodePhase
from gpunion.domain.protocol.commit import InboxMark, NumberedOrder, SavedCampus
from gpunion.domain.protocol.timers import CoordinatorTimer, coordinator_timer
from gpunion.domain.resources import Capacity
from gpunion.wire import codec

from . import rows, tables
from .inspection import Sight
from .owners import ganged_with, job_named_by, timer_subject
from .seals import Key, Row, key_of

_OF_JOBS = (tables.jobs, tables.runs, tables.checkpoints, tables.migrations)
_OF_NODES = (tables.nodes, tables.orders, tables.channels, tables.marks)
# What is lost with them is learned again, or asked for again.
_LEARNED_AGAIN = {
    "lendings": "what was learned of when machines are lent",
    "campus_memories": "what was learned of when machines are lent",
    "accounts": "who has used how much (fair shares begin anew)",
    "reliabilities": "how far what jobs in windows promise is believed (who was doubted is believed again)",
    "set_aside": "a message that was set aside",
    "idempotency": "a request's key (one that is repeated may count twice)",
    "join_tokens": "a token to join with (make another)",
}
_ONE = {
    "jobs": "the job's own record",
    "runs": "a run of it",
    "checkpoints": "a checkpoint of it",
    "migrations": "a move of it",
}
_NAME_LIMIT_CHARS = 60
# Timers that whoever starts sets again.
SET_AGAIN = frozenset({"lesson", "evacuate", "replan", "leave"})


@dataclass(slots=True)
class Findings:
    saved: SavedCampus = field(default_factory=SavedCampus)
    refusals: list[str] = field(default_factory=list)
    to_drop: list[tuple[Table, Key]] = field(default_factory=list)
    missing: dict[str, int] = field(default_factory=dict)  # rows known to be gone, by table


def judge(sight: Sight) -> Findings:
    return _Judge(sight).findings()


class _Judge:
    def __init__(self, sight: Sight) -> None:
        self._seen = sight.seen
        self._submitted = sight.submitted
        self._result = Findings()
        self._left_out: list[str] = []
        self._held: dict[str, list[str]] = {}  # what is wrong, by job
        self._forgotten: set[str] = set()  # machines that have to greet anew
        self._records: dict[str, dict[str, Any]] = {}
        self._orders: list[NumberedOrder] = []
        self._timers: dict[str, CoordinatorTimer] = {}

    def findings(self) -> Findings:
        for table in rows.RECORD_TABLES.values():
            self._records[table.name] = self._read(table, rows.record_of)
        self._orders = list(self._read(tables.orders, _order).values())
        self._timers = self._read(tables.timers, lambda _, row: coordinator_timer(row["key"]))
        self._hold()
        self._forget()
        self._learn_again()
        self._refuse_the_rest()
        self._result.saved = self._campus()
        return self._result

    def _read(self, table: Table, read: Callable[[Table, Row], Any]) -> dict[Any, Any]:
        """What a row says may be unreadable though its seal is right: it was written so."""
        seen, found = self._seen[table.name], {}
        for row in list(seen.good):
            try:
                key = key_of(table, row)
                found[key if len(key) > 1 else key[0]] = read(table, row)
            except (ValueError, TypeError):
                seen.good.remove(row)
                seen.bad.append(row)
        return found

    # --- jobs ------------------------------------------------------------------------------------

    def _hold(self) -> None:
        self._find_missing()
        known = {*self._records["jobs"], *self._held, *self._records["held_jobs"]}
        known |= {row["id"] for row in self._seen["jobs"].bad if row["id"]}
        for table in _OF_JOBS:
            for row in self._seen[table.name].bad:
                named = {row["id"] if table is tables.jobs else job_named_by(row["id"]), row.get("job_id")}
                self._hold_those(named & known, f"{_ONE[table.name]} cannot be read", table, row)
        for row in self._seen["timers"].bad:
            kind, subject = timer_subject(row["key"])
            if kind in SET_AGAIN:
                self._result.to_drop.append((tables.timers, key_of(tables.timers, row)))
            else:
                self._hold_those(
                    {job_named_by(subject)} & known,
                    "a moment that was set for it cannot be read",
                    tables.timers,
                    row,
                )
        for row in self._seen["held_jobs"].bad:
            self._hold_those({row["id"]} & known, "why it was held cannot be read", tables.held_jobs, row)
        for job_id in [*self._held]:
            for other in ganged_with(job_id, known):
                self._held.setdefault(other, [f"it is in one gang with {job_id}, which is held"])

    def _hold_those(self, jobs: Iterable[Any], why: str, table: Table, row: Row) -> None:
        found = [job for job in jobs if job is not None]
        for job in found:
            told = self._held.setdefault(job, [])
            if why not in told:
                told.append(why)
        if not found:
            self._refuse(f"{_called(table, row)} cannot be read, nor which job it is of")

    def _find_missing(self) -> None:
        """Numbers that a job and its runs count by tell what should be there."""
        jobs: dict[str, Job] = self._records["jobs"]
        runs: dict[str, Run] = self._records["runs"]
        others = (
            *runs.values(),
            *self._records["checkpoints"].values(),
            *self._records["migrations"].values(),
        )
        referred = {one.job_id for one in others} | {row["job_id"] for row in self._seen["idempotency"].good}
        self._miss(tables.jobs, {job: job for job in referred}, {job: job for job in self._submitted})
        self._miss(
            tables.runs,
            {run_id(job.id, epoch): job.id for job in jobs.values() for epoch in range(1, job.epoch + 1)},
        )
        self._miss(
            tables.migrations,
            {migration_id(job.id, n): job.id for job in jobs.values() for n in range(1, job.migrations + 1)},
        )
        self._miss(
            tables.checkpoints,
            {checkpoint_id(r.id, n): r.job_id for r in runs.values() for n in range(1, r.checkpoints + 1)},
        )

    def _miss(self, table: Table, *owners: dict[Any, str]) -> None:
        """`owners`: what there should be, and of which job; the surest list first."""
        seen = self._seen[table.name]
        there = {row["id"] for row in (*seen.good, *seen.bad)}
        for expected in owners:
            gone = {key: job for key, job in expected.items() if key not in there}
            if gone and seen.bad and table is tables.jobs:  # under which name may be what was altered
                for job in gone.values():
                    self._held.setdefault(job, []).append("the job itself cannot be found")
            elif seen.short_by > 0 and len(gone) == seen.short_by:
                for job in gone.values():
                    self._held.setdefault(job, []).append(f"{_ONE[table.name]} is gone")
                self._result.missing[table.name] = seen.short_by
                seen.short_by = 0
                seen.sum_differs = False
                return

    # --- machines, memories, and the rest -----------------------------------------------------------

    def _forget(self) -> None:
        known = {*self._records["nodes"], *(row["name"] for row in self._seen["credentials"].good)}
        for table in _OF_NODES:
            for row in self._seen[table.name].bad:
                node = row["id" if table is tables.nodes else "node_id"]
                if node in known:
                    self._forgotten.add(node)
                else:
                    self._refuse(f"{_called(table, row)} cannot be read, nor which machine it is of")
        self._find_missing_nodes()
        for node in sorted(self._forgotten):
            self._left_out.append(f"what was said to {node} and by it: it joins anew when it connects")
            for table in (tables.orders, tables.channels, tables.marks):
                seen = self._seen[table.name]
                keys = [key_of(table, row) for row in (*seen.good, *seen.bad) if row["node_id"] == node]
                self._result.to_drop += [(table, key) for key in keys]

    def _find_missing_nodes(self) -> None:
        seen = self._seen["nodes"]
        names = {run.node_id for run in self._records["runs"].values()}
        for table in (tables.orders, tables.channels, tables.marks):
            names |= {row["node_id"] for row in self._seen[table.name].good}
        gone = names - {row["id"] for row in (*seen.good, *seen.bad)}
        if seen.short_by > 0 and len(gone) == seen.short_by:
            self._forgotten |= gone
            self._result.missing["nodes"] = seen.short_by
            seen.short_by, seen.sum_differs = 0, False

    def _learn_again(self) -> None:
        for name, what in _LEARNED_AGAIN.items():
            seen, table = self._seen[name], tables.metadata.tables[name]
            if seen.bad or seen.short_by or seen.sum_differs:
                self._left_out.append(what)
                self._result.to_drop += [(table, key_of(table, row)) for row in seen.bad]
            seen.bad.clear()
            seen.short_by, seen.sum_differs = 0, False

    def _refuse_the_rest(self) -> None:
        held = {table.name for table in (*_OF_JOBS, *_OF_NODES, tables.timers, tables.held_jobs)}
        for name, seen in self._seen.items():
            if seen.bad and name not in held:
                self._refuse(f"{len(seen.bad)} of {name} cannot be read")
                table = tables.metadata.tables[name]
                self._result.to_drop += [(table, key_of(table, row)) for row in seen.bad]
            if seen.short_by:
                more, rows_ = "fewer" if seen.short_by > 0 else "more", abs(seen.short_by)
                said = "row" if rows_ == 1 else "rows"
                self._refuse(f"{name} has {rows_} {said} {more} than was written")
            elif seen.sum_differs and not seen.bad:
                self._refuse(f"a row of {name} is an older one than was written last")

    def _refuse(self, why: str) -> None:
        if why not in self._result.refusals:
            self._result.refusals.append(why)

    # --- what is left ------------------------------------------------------------------------------

    def _campus(self) -> SavedCampus:
        held = self._held_jobs()
        records: list[Any] = [*held.values()]
        for name, found in self._records.items():
            if name not in ("held_jobs", "nodes"):
                records += [one for one in found.values() if _job_of(one) not in held]
        records += self._nodes()
        forgotten, seen = self._forgotten, self._seen
        timers = [
            (self._timers[row["key"]], row["at_s"])
            for row in seen["timers"].good
            if job_named_by(timer_subject(row["key"])[1]) not in held
        ]
        return SavedCampus(
            records=tuple(records),
            timers=tuple(timers),
            orders=tuple(order for order in self._orders if order.node_id not in forgotten),
            last_order_seq=tuple(
                (NodeId(row["node_id"]), row["last_order_seq"])
                for row in seen["channels"].good
                if row["node_id"] not in forgotten
            ),
            marks=tuple(InboxMark(**row) for row in seen["marks"].good if row["node_id"] not in forgotten),
            left_out=tuple(dict.fromkeys(self._left_out)),
        )

    def _held_jobs(self) -> dict[str, HeldJob]:
        found: dict[str, HeldJob] = dict(self._records["held_jobs"])
        for job_id, why in self._held.items():
            if job_id in found:
                continue
            runs = [run for run in self._records["runs"].values() if run.job_id == job_id and run.living]
            unreadable = [row for row in self._seen["runs"].bad if job_named_by(row["id"]) == job_id]
            nodes = {row["node_id"] for row in unreadable} & self._records["nodes"].keys()
            found[job_id] = HeldJob(
                id=JobId(job_id),
                why="; ".join(why),
                job=self._records["jobs"].get(job_id),
                runs=tuple(runs),
                nodes=tuple(map(NodeId, sorted(nodes))),
            )
        return found

    def _nodes(self) -> list[Node]:
        """Whoever has to greet anew is one that nobody knows the incarnation of."""
        nodes: dict[str, Node] = dict(self._records["nodes"])
        labs = {row["name"]: row["lab"] for row in self._seen["credentials"].good}
        for node in self._forgotten:
            nodes[node] = changed(nodes[node], incarnation="") if node in nodes else _unknown(node, labs)
        return [nodes[name] for name in sorted(nodes)]


def _called(table: Table, row: Row) -> str:
    name = ascii(key_of(table, row)[0])[:_NAME_LIMIT_CHARS]
    return f"{name} of {table.name}"


def _unknown(node: str, labs: dict[str, str]) -> Node:
    nothing = Capacity(gpus=(), cpus=0.0, memory_bytes=0, uplink_bps=1.0)
    return Node(
        id=NodeId(node),
        facts=NodeFacts(lab=labs.get(node, ""), capacity=nothing),
        phase=NodePhase.SHARING,
        incarnation="",
        joined_s=0.0,
        phase_since_s=0.0,
    )


def _job_of(record: Any) -> str | None:
    if isinstance(record, Job):
        return record.id
    return record.job_id if hasattr(record, "job_id") else None


def _order(_table: Table, row: Row) -> NumberedOrder:
    return NumberedOrder(node_id=row["node_id"], seq=row["seq"], order=codec.decode(row["body"]))
