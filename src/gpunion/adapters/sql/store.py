"""The coordinator's store: one transaction a decision, fenced by the leader's term."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gpunion.domain.commit import Commit, InboxMark, NumberedOrder, SavedCampus
from gpunion.domain.ids import JobId, NodeId
from gpunion.ports.store import (
    Credential,
    CredentialKind,
    LoggedDecision,
    Overtaken,
    Redeemed,
    StoreFault,
    StoreFull,
    is_logged,
    log_line,
)
from gpunion.wire import codec

from . import migrate, rows, tables
from .engines import Engines, faults, shut_to_others, sqlite_engines
from .lock import FileLock
from .writing import FENCE, Writing

# A client that repeats a request does so within minutes; after this its key is forgotten.
KEY_MEMORY_S = 7 * 86400.0


class SqlStore:
    """On the SQLite file at `path`. Not open until `open` was awaited."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(path.with_name(path.name + ".lock"))
        self._engines: Engines = sqlite_engines(path)
        self._writing = Writing(self._engines)
        self._stack = AsyncExitStack()
        self._writer: AsyncConnection | None = None
        # One connection writes, for whoever asks: the loop, and now and then an enrolment.
        self._turn = asyncio.Lock()
        self._last_line = 0
        self._acknowledged: dict[NodeId, int] = {}

    async def open(self, *, holder: str, now_s: float, lead_s: float) -> int:
        self._lock.take(holder)
        try:
            shut_to_others(self._path)
            with self._faults(f"cannot open {self._path}"):
                self._writer = await self._stack.enter_async_context(self._engines.writer.connect())
                async with self._transaction() as connection:
                    await connection.run_sync(migrate.upgrade)
                async with self._transaction() as connection:
                    return await self._take_lead(connection, holder, now_s, lead_s)
        except BaseException:
            await self._shut()
            raise

    async def renew(self, *, term: int, now_s: float, lead_s: float) -> None:
        keep = update(tables.leader).where(tables.leader.c.term == term).values(until_s=now_s + lead_s)
        with self._faults("cannot keep the lead"):
            async with self._transaction() as connection:
                if (await connection.execute(keep)).rowcount != 1:
                    raise _overtaken(term)

    async def newest_s(self) -> float:
        with self._faults("cannot read"):
            async with self._engines.reader.connect() as connection:
                return float(await connection.scalar(select(tables.leader.c.newest_s)) or 0.0)

    async def load(self) -> SavedCampus:
        with self._faults("cannot read the campus"):
            async with self._engines.reader.connect() as connection:
                return await _load(connection)

    async def commit(self, commit: Commit, *, term: int) -> int:
        line = log_line(commit, self._last_line + 1) if is_logged(commit) else None
        acknowledged = dict(self._acknowledged)
        with self._faults("cannot commit"):
            async with self._transaction() as connection:
                fenced = await connection.execute(FENCE, {"own_term": term, "at_s": commit.at_s})
                if fenced.rowcount != 1:
                    raise _overtaken(term)
                for statement, parameters in self._writing.of(commit, line, acknowledged):
                    await connection.execute(statement, parameters)
        for node_id, seq in acknowledged.items():
            if self._acknowledged.get(node_id) == seq:
                del self._acknowledged[node_id]
        if line is not None:
            self._last_line = line.seq
        return self._last_line

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
                return [rows.logged(row) for row in await connection.execute(query)]

    async def close(self, *, term: int) -> None:
        if self._writer is not None:
            give_back = update(tables.leader).where(tables.leader.c.term == term).values(until_s=0.0)
            # Without room for it, it stays: who takes the file lock next leads anyway.
            with suppress(StoreFull), self._faults("cannot give the lead back"):
                async with self._transaction() as connection:
                    await connection.execute(give_back)
        await self._shut()

    # --- identities ------------------------------------------------------------------------------

    async def credentials(self) -> Sequence[Credential]:
        with self._faults("cannot read credentials"):
            async with self._engines.reader.connect() as connection:
                found = await connection.execute(select(tables.credentials))
                return [
                    Credential(**{**row, "kind": CredentialKind(row["kind"])}) for row in found.mappings()
                ]

    async def put_credential(self, credential: Credential) -> None:
        with self._faults("cannot keep a credential"):
            async with self._transaction() as connection:
                await self._put_credential(connection, credential)

    async def put_join_token(self, digest: str, *, expires_s: float) -> None:
        token = {"digest": digest, "expires_s": expires_s, "used_by": None}
        with self._faults("cannot keep a join token"):
            async with self._transaction() as connection:
                await connection.execute(insert(tables.join_tokens), token)

    async def redeem(self, digest: str, *, now_s: float, credential: Credential) -> Redeemed:
        token = tables.join_tokens
        use = (
            update(token)
            .where(token.c.digest == digest, token.c.used_by.is_(None), token.c.expires_s > now_s)
            .values(used_by=credential.name)
        )
        with self._faults("cannot enrol"):
            async with self._transaction() as connection:
                if (await connection.execute(use)).rowcount == 1:
                    await self._put_credential(connection, credential)
                    return Redeemed.TAKEN
                row = (await connection.execute(select(token).where(token.c.digest == digest))).first()
        if row is None:
            return Redeemed.UNKNOWN
        return Redeemed.EXPIRED if row.used_by is None else Redeemed.USED

    # --- places ----------------------------------------------------------------------------------

    async def place_marks(self) -> Mapping[str, str]:
        with self._faults("cannot read the marks of places"):
            async with self._engines.reader.connect() as connection:
                found = await connection.execute(select(tables.place_marks))
                return {row.directory: row.mark for row in found}

    async def put_place_mark(self, directory: str, mark: str) -> None:
        with self._faults("cannot keep the mark of a place"):
            async with self._transaction() as connection:
                row = {"directory": directory, "mark": mark}
                await connection.execute(self._engines.upsert(tables.place_marks), row)

    # --- private ---------------------------------------------------------------------------------

    def _faults(self, what: str) -> AbstractContextManager[None]:
        return faults(what, self._path.parent)

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection]:
        if self._writer is None:
            raise StoreFault("the store is closed")
        async with self._turn, self._writer.begin():
            yield self._writer

    async def _take_lead(self, connection: AsyncConnection, holder: str, now_s: float, lead_s: float) -> int:
        """The file lock is ours, so whoever stands in the table is dead and its lease counts for nothing."""
        row = (await connection.execute(select(tables.leader))).first()
        # By the clock, so that a database put back from a backup still leads over the terms after it.
        term = max(int(now_s), 1 if row is None else int(row.term) + 1)
        lead = {"term": term, "holder": holder, "until_s": now_s + lead_s}
        if row is None:
            await connection.execute(insert(tables.leader), {"id": 1, "newest_s": 0.0, **lead})
        else:
            await connection.execute(update(tables.leader).values(lead))
        self._last_line = int(await connection.scalar(select(func.max(tables.decisions.c.seq))) or 0)
        old = tables.idempotency.c.at_s < now_s - KEY_MEMORY_S
        await connection.execute(delete(tables.idempotency).where(old))
        return term

    async def _put_credential(self, connection: AsyncConnection, credential: Credential) -> None:
        row = {
            "kind": credential.kind.value,
            "name": credential.name,
            "digest": credential.digest,
            "lab": credential.lab,
            "created_s": credential.created_s,
        }
        await connection.execute(self._engines.upsert(tables.credentials), row)

    async def _shut(self) -> None:
        self._writer = None
        await self._stack.aclose()
        await self._engines.dispose()
        self._lock.release()


async def _load(connection: AsyncConnection) -> SavedCampus:
    records = []
    for table in rows.RECORD_TABLES.values():
        # By id, so that a loaded campus does not depend on when which row was last written.
        bodies = await connection.scalars(select(table.c.body).order_by(table.c.id))
        records += [codec.decode(body) for body in bodies]
    timers = await connection.execute(select(tables.timers).order_by(tables.timers.c.key))
    orders = await connection.execute(
        select(tables.orders).order_by(tables.orders.c.node_id, tables.orders.c.seq)
    )
    channels = await connection.execute(select(tables.channels).order_by(tables.channels.c.node_id))
    marks = await connection.execute(select(tables.marks).order_by(tables.marks.c.node_id))
    return SavedCampus(
        records=tuple(records),
        timers=tuple((row.key, row.at_s) for row in timers),
        orders=tuple(
            NumberedOrder(node_id=row.node_id, seq=row.seq, order=codec.decode(row.body)) for row in orders
        ),
        last_order_seq=tuple((row.node_id, row.last_order_seq) for row in channels),
        marks=tuple(InboxMark(**row) for row in marks.mappings()),
    )


def _overtaken(term: int) -> Overtaken:
    return Overtaken(f"another coordinator took the lead; term {term} is over")
