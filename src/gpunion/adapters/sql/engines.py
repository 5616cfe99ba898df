"""Everything that differs between databases: how to connect, begin, upsert, and keep others out.

Writing goes over one connection, reading over a few of their own, so that a long story never holds up a
commit (WAL on SQLite, MVCC elsewhere).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Table, event
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine import URL
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.sql.dml import Insert

from gpunion.ports.database import StoreBroken, StoreFault, StoreFull
from gpunion.text import size_in_words

# A backup tool may hold the file for a moment; a commit waits this long for it.
BUSY_TIMEOUT_MS = 5_000
READERS = 4
# SQLite's own words for what may be better later; the transaction is certainly rolled back. An I/O error is
# not among them: after a failed fsync nobody knows what the disk has.
BUSY = "database is locked"
FULL = "database or disk is full"
# What SQLite could not do then, which says nothing of what the file holds.
_OF_THE_SYSTEM = frozenset(
    {
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOLFS,
        sqlite3.SQLITE_AUTH,
    }
)
# An extended code has the plain one in its lowest byte.
_PLAIN_CODE = 0xFF
# With less than this, SQLite may find no room for the index of its log, and calls that an I/O error.
_LITTLE_BYTES = 64 * 1024


class Engines:
    """A writer, readers, and the dialect's way to write a row that may be there already."""

    def __init__(self, writer: AsyncEngine, reader: AsyncEngine) -> None:
        self.writer = writer
        self.reader = reader

    def upsert(self, table: Table) -> Insert:
        """Inserts a row, or replaces all but the key of the one that is there."""
        # PostgreSQL's insert has the same two methods.
        statement = sqlite_insert(table)
        keys = [column.name for column in table.primary_key.columns]
        names = [column.name for column in table.columns]
        rest = {name: statement.excluded[name] for name in names if name not in keys}
        return statement.on_conflict_do_update(index_elements=keys, set_=rest)

    async def dispose(self) -> None:
        await self.writer.dispose()
        await self.reader.dispose()


def sqlite_engines(path: Path) -> Engines:
    url = URL.create("sqlite+aiosqlite", database=str(path))
    writer = create_async_engine(url, pool_size=1, max_overflow=0)
    reader = create_async_engine(url, pool_size=READERS, max_overflow=0)
    _configure(writer, begin="BEGIN IMMEDIATE", pragmas=("journal_mode=WAL", "synchronous=FULL"))
    _configure(reader, begin="BEGIN", pragmas=("query_only=ON",))
    return Engines(writer, reader)


def shut_to_others(path: Path) -> None:
    """Keys and credentials are in it, and its folder may be one that somebody else made.

    SQLite gives what it puts beside the file the file's own mode. To be called before that is opened: closing
    a file drops SQLite's locks on it.
    """
    with suppress(OSError):  # opening it says what is wrong
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for one in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        with suppress(OSError):
            one.chmod(one.stat().st_mode & 0o700)


def _configure(engine: AsyncEngine, *, begin: str, pragmas: tuple[str, ...]) -> None:
    @event.listens_for(engine.sync_engine, "connect")
    def connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver must not begin on its own: we do, below
        cursor = connection.cursor()
        for pragma in (f"busy_timeout={BUSY_TIMEOUT_MS}", *pragmas):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begun(connection: Any) -> None:
        connection.exec_driver_sql(begin)


@contextmanager
def faults(what: str, folder: Path) -> Iterator[None]:
    """The driver's errors as ours; the database lies in `folder`."""
    try:
        yield
    except DatabaseError as error:
        cause = str(error.orig)
        if not isinstance(error, OperationalError):
            raise StoreBroken(f"{what}: {cause}") from error
        if FULL in cause:
            raise StoreFull(f"{what}: {_how_full(folder)}") from error
        if BUSY in cause:
            raise StoreFault(f"{what}: {cause}") from error
        raise StoreBroken(f"{what}: {_in_words(error.orig, folder)}") from error


def fault_of_system(what: str, error: Exception, folder: Path) -> StoreFault | None:
    """Why a database could not even be looked at; None where it could, and is not as it should be."""
    if _code(error) not in _OF_THE_SYSTEM:
        return None
    if _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreFault(f"{what}: {error}")
    return StoreBroken(f"{what}: {_in_words(error, folder)}")


def _code(error: object) -> int:
    """What the driver itself found wrong has none."""
    return getattr(error, "sqlite_errorcode", 0) & _PLAIN_CODE


def _in_words(error: object, folder: Path) -> str:
    if _code(error) == sqlite3.SQLITE_FULL:
        return _how_full(folder)
    if _code(error) != sqlite3.SQLITE_IOERR:
        return str(error)
    with suppress(OSError):
        disk = os.statvfs(folder)
        if disk.f_bavail * disk.f_frsize < _LITTLE_BYTES:
            return _how_full(folder)
    name = getattr(error, "sqlite_errorname", "SQLITE_IOERR")
    return f"{error} ({name}): the disk of {folder} does not read or write as it should"


def _how_full(folder: Path) -> str:
    try:
        disk = os.statvfs(folder)
    except OSError as error:
        return f"the disk of {folder} is full ({error.strerror})"
    free, size = (size_in_words(blocks * disk.f_frsize) for blocks in (disk.f_bavail, disk.f_blocks))
    return f"the disk of {folder} is full: {free} of {size} are free"
