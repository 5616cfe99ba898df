"""The coordinator's store: one transaction a decision, fenced by the leader's term."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import Connection, Table, and_, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncResult

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.protocol.commit import Commit, SavedCampus
from gpunion.ports.database import (
    LOG_PAGE_BYTES,
    Credential,
    CredentialKind,
    LoggedDecision,
    Mend,
    Overtaken,
    Redeemed,
    StoreFault,
    StoreFull,
    is_logged,
    log_line,
    weight_of,
)

from . import migrate, rows, tables
from .engines import Engines, faults, shut_to_others, sqlite_engines
from .findings import Findings
from .inspection import SCHEMA, schema_of
from .lock import FileLock
from .opening import Opened, Opening
from .reached import ReachedFile
from .seals import SEAL, Entry, Tally, key_names, seal_of, sealed, totals_text
from .writing import FENCE, Writing

log = structlog.get_logger("gpunion.coordinator")

LOG_ROWS_AT_ONCE = 16  # a page may end after the first of them
# A client that repeats a request does so within minutes; after this its key is forgotten.
KEY_MEMORY_S = 7 * 86400.0


class SqlStore:
    """On the SQLite file at `path`. Not open until `open` was awaited.

    `mend`: what may be done where it would refuse to open. `witnesses`: files beside it that tell that there
    was a campus here, so that an empty database is not taken for a new one.
    """

    def __init__(self, path: Path, *, mend: Mend = Mend.NOTHING, witnesses: Sequence[Path] = ()) -> None:
        self._path = path
        self._opening = Opening(path, mend=mend, witnesses=witnesses)
        self._lock = FileLock(path.with_name(path.name + ".lock"))
        self._engines: Engines = sqlite_engines(path)
        self._writing = Writing(self._engines)
        self._stack = AsyncExitStack()
        self._writer: AsyncConnection | None = None
        # One connection writes, for whoever asks: the loop, and now and then an enrolment.
        self._turn = asyncio.Lock()
        self._acknowledged: dict[NodeId, int] = {}
        self._tally = Tally()
        self._reached = ReachedFile(path)
        self._schema = ""
        self._leader: rows.Row = {}
        self._found: Findings | None = None  # as it was opened, until something is committed

    async def open(self, *, holder: str, now_s: float, lead_s: float) -> int:
        self._lock.take(holder)
        try:
            opened = await asyncio.to_thread(self._opening.look)
            shut_to_others(self._path)
            with self._faults(f"cannot open {self._path}"):
                self._writer = await self._stack.enter_async_context(self._engines.writer.connect())
                async with self._turn, self._writer.begin():
                    await self._writer.run_sync(migrate.upgrade)
                return await self._take_lead(opened, holder, now_s, lead_s)
        except BaseException:
            await self._shut()
            raise

    async def renew(self, *, term: int, now_s: float, lead_s: float) -> None:
        with self._faults("cannot keep the lead"):
            async with self._transaction(term=term, until_s=now_s + lead_s):
                pass

    async def newest_s(self) -> float:
        return float(self._leader["newest_s"])

    async def load(self) -> SavedCampus:
        if self._found is None:
            self._found = await asyncio.to_thread(self._opening.found)
        return self._found.saved

    async def commit(self, commit: Commit, *, term: int) -> int:
        last_line = int(self._leader["last_line"])
        line = log_line(commit, last_line + 1) if is_logged(commit) else None
        acknowledged = dict(self._acknowledged)
        last_line = last_line if line is None else line.seq
        with self._faults("cannot commit"):
            async with self._transaction(term=term, newest_s=commit.at_s, last_line=last_line) as (
                connection,
                entry,
            ):
                for statement, parameters in self._writing.of(entry, commit, line, acknowledged):
                    await connection.execute(statement, parameters)
        for node_id, seq in acknowledged.items():
            if self._acknowledged.get(node_id) == seq:
                del self._acknowledged[node_id]
        return last_line

    async def acknowledged(self, node_id: NodeId, up_to_seq: int) -> None:
        """Goes to disk with the next commit: a lost one costs a repeated order, and no heartbeat a write."""
        self._acknowledged[node_id] = max(up_to_seq, self._acknowledged.get(node_id, 0))

    async def job_for_key(self, idempotency_key: str) -> JobId | None:
        key = tables.idempotency.c
        with self._faults("cannot read a key"):
            async with self._engines.reader.connect() as connection:
                found = await connection.scalar(select(key.job_id).where(key.key == idempotency_key))
        return None if found is None else JobId(found)

    async def log(
        self, *, since_seq: int = 0, subject: str | None = None, limit: int = 500
    ) -> Sequence[LoggedDecision]:
        decisions, index = tables.decisions, tables.log_subjects.c
        query = select(decisions).where(decisions.c.seq > since_seq).order_by(decisions.c.seq).limit(limit)
        if subject is not None:
            query = query.join(tables.log_subjects, index.seq == decisions.c.seq).where(
                index.subject == subject
            )
        with self._faults("cannot read the log"):
            async with self._engines.reader.connect() as connection:
                return await _page(
                    await connection.stream(query.execution_options(yield_per=LOG_ROWS_AT_ONCE))
                )

    async def close(self, *, term: int) -> None:
        if self._writer is not None and self._leader.get("term") == term:
            # Without room for it, it stays: who takes the file lock next leads anyway.
            with suppress(StoreFull, Overtaken), self._faults("cannot give the lead back"):
                async with self._transaction(until_s=0.0):
                    pass
        await self._shut()

    # --- identities ------------------------------------------------------------------------------

    async def credentials(self) -> Sequence[Credential]:
        with self._faults("cannot read credentials"):
            async with self._engines.reader.connect() as connection:
                found = await connection.execute(select(tables.credentials))
                return [_credential(row) for row in map(dict, found.mappings()) if _is_sealed(row)]

    async def put_credential(self, credential: Credential) -> None:
        with self._faults("cannot keep a credential"):
            async with self._transaction() as (connection, entry):
                await self._put(connection, entry, tables.credentials, _credential_row(credential))

    async def put_join_token(self, digest: str, *, expires_s: float) -> None:
        token = {"digest": digest, "expires_s": expires_s, "used_by": None}
        with self._faults("cannot keep a join token"):
            async with self._transaction() as (connection, entry):
                await self._put(connection, entry, tables.join_tokens, token)

    async def redeem(self, digest: str, *, now_s: float, credential: Credential) -> Redeemed:
        token = tables.join_tokens
        with self._faults("cannot enrol"):
            async with self._transaction() as (connection, entry):
                row = (await connection.execute(select(token).where(token.c.digest == digest))).first()
                if row is None:
                    return Redeemed.UNKNOWN
                if row.used_by is not None:
                    return Redeemed.USED
                if row.expires_s <= now_s:
                    return Redeemed.EXPIRED
                used = {"digest": digest, "expires_s": row.expires_s, "used_by": credential.name}
                await self._put(connection, entry, token, used)
                await self._put(connection, entry, tables.credentials, _credential_row(credential))
                return Redeemed.TAKEN

    # --- places ----------------------------------------------------------------------------------

    async def place_marks(self) -> Mapping[str, str]:
        with self._faults("cannot read the marks of places"):
            async with self._engines.reader.connect() as connection:
                found = await connection.execute(select(tables.place_marks))
                return {row.directory: row.mark for row in found}

    async def put_place_mark(self, directory: str, mark: str) -> None:
        with self._faults("cannot keep the mark of a place"):
            async with self._transaction() as (connection, entry):
                row = {"directory": directory, "mark": mark}
                await self._put(connection, entry, tables.place_marks, row)

    # --- private ---------------------------------------------------------------------------------

    def _faults(self, what: str) -> AbstractContextManager[None]:
        return faults(what, self._path.parent)

    @asynccontextmanager
    async def _transaction(
        self, *, term: int | None = None, **leader: Any
    ) -> AsyncIterator[tuple[AsyncConnection, Entry]]:
        """Ends with the leader's own row, which says what all tables now hold; all of it or nothing."""
        if self._writer is None:
            raise StoreFault("the store is closed")
        async with self._turn:
            entry = self._tally.entry()
            async with self._writer.begin():
                yield self._writer, entry
                lead = self._next_lead(entry, **leader)
                own_term = lead["term"] if term is None else term
                fence = {name: value for name, value in lead.items() if name not in ("id", "term")}
                fenced = await self._writer.execute(FENCE, {"own_term": own_term, **fence})
                if fenced.rowcount != 1:
                    raise Overtaken(f"another coordinator took the lead; term {own_term} is over")
            self._tally.take(entry)
            self._leader = lead
            self._found = None
            self._reached.now_at(lead["commits"])

    def _next_lead(self, entry: Entry, **changes: Any) -> rows.Row:
        totals = totals_text(entry.totals, self._schema)
        lead = {**self._leader, **changes, "totals": totals, "commits": self._leader["commits"] + 1}
        return sealed(tables.leader, lead)

    async def _take_lead(self, opened: Opened, holder: str, now_s: float, lead_s: float) -> int:
        """The file lock is ours, so whoever stands in the table is dead and its lease counts for nothing."""
        before, writer = opened.leader, self._writer
        assert writer is not None
        # By the clock, so that a database put back from a backup still leads over the terms after it.
        term = max(int(now_s), 1 if before is None else int(before["term"]) + 1)
        for name, (seals, missing) in opened.holds().items():
            self._tally.begin_with(name, seals, missing=missing)
        entry = self._tally.entry()
        async with self._turn, writer.begin():
            self._schema = await writer.run_sync(_schema)
            for table, key in opened.to_drop(before_s=now_s - KEY_MEMORY_S):
                entry.drop(table, [key])
                mine = and_(
                    *(table.c[name] == part for name, part in zip(key_names(table), key, strict=True))
                )
                await writer.execute(delete(table).where(mine))
            self._leader = {
                "id": 1,
                "newest_s": 0.0 if before is None else before["newest_s"],
                "commits": opened.commits,
                "last_line": await _last_line(writer, before),
            }
            lead = self._next_lead(entry, term=term, holder=holder, until_s=now_s + lead_s)
            await writer.execute(delete(tables.leader))
            await writer.execute(insert(tables.leader), lead)
        self._tally.take(entry)
        self._leader, self._found = lead, opened.findings
        self._reached.begin(lead["commits"])
        return term

    async def _put(self, connection: AsyncConnection, entry: Entry, table: Table, row: rows.Row) -> None:
        statement, parameters = self._writing.put(entry, table, [row])
        await connection.execute(statement, parameters)

    async def _shut(self) -> None:
        self._writer = None
        self._reached.close()
        await self._stack.aclose()
        await self._engines.dispose()
        self._lock.release()


def _is_sealed(row: rows.Row) -> bool:
    return bool(seal_of(tables.credentials, row) == row[SEAL])


def _credential(row: rows.Row) -> Credential:
    del row[SEAL]
    return Credential(**{**row, "kind": CredentialKind(row["kind"])})


def _credential_row(credential: Credential) -> rows.Row:
    return {**asdict(credential), "kind": credential.kind.value}


def _line(row: Any) -> LoggedDecision | None:
    """None where it cannot be read: one line less is told, and nothing is decided by it."""
    found = {name: value for name, value in row._mapping.items() if name != SEAL}
    try:
        if seal_of(tables.decisions, found) == row.seal:
            return rows.logged(row)
    except (ValueError, TypeError):
        pass
    log.warning("log_line_unreadable", seq=row.seq, message="it is left out of what is told")
    return None


def _schema(connection: Connection) -> str:
    return schema_of(connection.exec_driver_sql(SCHEMA).all())


async def _last_line(connection: AsyncConnection, before: rows.Row | None) -> int:
    newest = int(await connection.scalar(select(func.max(tables.decisions.c.seq))) or 0)
    return max(newest, 0 if before is None else int(before["last_line"]))


async def _page(found: AsyncResult[Any]) -> list[LoggedDecision]:
    """The rest is not even read."""
    page: list[LoggedDecision] = []
    weight = 0
    async for row in found:
        line = _line(row)
        if line is None:
            continue
        weight += weight_of(line)
        if page and weight > LOG_PAGE_BYTES:
            await found.close()
            break
        page.append(line)
    return page
