"""What only a database on disk has to show."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from gpunion.adapters.sql.database import SqlStore
from gpunion.adapters.sql.engines import fault_of_system
from gpunion.adapters.sql.tables import metadata
from gpunion.ports.database import StoreBroken, StoreDamaged, StoreFault
from tests.contract.store import builders
from tests.contract.store.builders import a_commit

HOLD = """
import asyncio, sys
from pathlib import Path
from gpunion.adapters.sql.database import SqlStore
from tests.contract.store import builders

async def hold():
    folder = Path(sys.argv[1])
    store = SqlStore(folder / "gpunion.db")
    term = await store.open(holder="the first", now_s=0.0, lead_s=1e9)
    await store.commit(builders.a_commit(builders.a_job()), term=term)
    print("committed", flush=True)
    await asyncio.Event().wait()

asyncio.run(hold())
"""


def a_store(folder: Path) -> SqlStore:
    return SqlStore(folder / "gpunion.db")


async def opened(folder: Path) -> tuple[SqlStore, int]:
    store = a_store(folder)
    return store, await store.open(holder="test", now_s=0.0, lead_s=30.0)


async def test_the_migrations_make_the_tables_the_code_expects(tmp_path: Path) -> None:
    store, term = await opened(tmp_path)
    await store.close(term=term)
    with create_engine(f"sqlite:///{tmp_path / 'gpunion.db'}").connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


async def test_nobody_else_reads_it_in_a_folder_that_is_open_to_all(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    old = os.umask(0o022)
    try:
        store, term = await opened(tmp_path)
        await store.commit(a_commit(builders.a_job()), term=term)
        modes = {one.name: one.stat().st_mode & 0o777 for one in tmp_path.glob("gpunion.db*")}
        await store.close(term=term)
        (tmp_path / "gpunion.db").chmod(0o644)  # as a copy of it is that was put back
        store, term = await opened(tmp_path)
        again = {one.name: one.stat().st_mode & 0o777 for one in tmp_path.glob("gpunion.db*")}
        await store.close(term=term)
    finally:
        os.umask(old)
    assert {"gpunion.db", "gpunion.db-wal", "gpunion.db-shm"} <= modes.keys()
    assert set(modes.values()) == set(again.values()) == {0o600}


async def test_commits_wait_for_the_disk(tmp_path: Path) -> None:
    store, term = await opened(tmp_path)
    async with store._transaction() as (connection, _):
        assert (await connection.exec_driver_sql("PRAGMA journal_mode")).scalar() == "wal"
        assert (await connection.exec_driver_sql("PRAGMA synchronous")).scalar() == 2
    await store.close(term=term)


async def test_a_killed_coordinator_frees_the_store_at_once_and_nothing_committed_is_lost(
    tmp_path: Path,
) -> None:
    root = Path(__file__).resolve().parents[3]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])}
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "committed\n"
    with pytest.raises(StoreFault, match="the first"):
        await opened(tmp_path)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    store, term = await opened(tmp_path)
    assert term == 2
    assert (await store.load()).records == (builders.a_job(),)
    await store.close(term=term)


async def test_a_database_put_back_from_a_backup_leads_over_every_term_after_it(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    await store.close(term=await store.open(holder="a", now_s=1_000.0, lead_s=30.0))
    backup = (tmp_path / "gpunion.db").read_bytes()
    for _ in range(3):
        store = a_store(tmp_path)
        newest = await store.open(holder="b", now_s=2_000.0, lead_s=30.0)
        await store.close(term=newest)
    (tmp_path / "put-back").mkdir()
    (tmp_path / "put-back" / "gpunion.db").write_bytes(backup)
    store = a_store(tmp_path / "put-back")
    assert await store.open(holder="c", now_s=3_000.0, lead_s=30.0) > newest
    await store.close(term=3_000)


async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "gpunion.db").write_bytes(b"something else entirely, and long enough to be looked at " * 20)
    before = (tmp_path / "gpunion.db").read_bytes()
    with pytest.raises(StoreBroken, match="not a database"):
        await opened(tmp_path)
    assert (tmp_path / "gpunion.db").read_bytes() == before


async def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    store, term = await opened(tmp_path)
    await store.close(term=term)
    with sqlite3.connect(tmp_path / "gpunion.db") as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.close()
    with pytest.raises(StoreBroken, match="newer gpunion"):
        await opened(tmp_path)


async def test_a_timer_nobody_knows_is_a_fault_that_names_it(tmp_path: Path) -> None:
    store, term = await opened(tmp_path)
    await store.close(term=term)
    with sqlite3.connect(tmp_path / "gpunion.db") as database:
        database.execute("INSERT INTO timers (key, at_s, seal) VALUES ('tea:job-e1', 1.0, 0)")
    database.close()
    with pytest.raises(StoreBroken, match="'tea:job-e1' of timers cannot be read"):
        await opened(tmp_path)


async def test_a_folder_that_is_not_there_is_a_clear_fault(tmp_path: Path) -> None:
    with pytest.raises(StoreBroken, match="cannot open"):
        await opened(tmp_path / "missing")


async def test_a_locked_database_is_a_passing_fault_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpunion.adapters.sql.engines.BUSY_TIMEOUT_MS", 10)
    store, term = await opened(tmp_path)
    other = sqlite3.connect(tmp_path / "gpunion.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreFault) as caught:
        await store.commit(a_commit(builders.a_job()), term=term)
    assert caught.value.temporary
    other.execute("ROLLBACK")
    other.close()
    assert await store.commit(a_commit(builders.a_job()), term=term) == 1
    assert (await store.load()).records == (builders.a_job(),)
    await store.close(term=term)


def an_error(code: int, name: str, text: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode, error.sqlite_errorname = code, name
    return error


@pytest.mark.parametrize(
    ("code", "name", "text"),
    [
        (sqlite3.SQLITE_IOERR_READ, "SQLITE_IOERR_READ", "disk I/O error"),
        (sqlite3.SQLITE_CANTOPEN, "SQLITE_CANTOPEN", "unable to open database file"),
        (
            sqlite3.SQLITE_READONLY_CANTINIT,
            "SQLITE_READONLY_CANTINIT",
            "attempt to write a readonly database",
        ),
        (sqlite3.SQLITE_NOMEM, "SQLITE_NOMEM", "out of memory"),
        (sqlite3.SQLITE_PERM, "SQLITE_PERM", "access permission denied"),
        (sqlite3.SQLITE_BUSY_RECOVERY, "SQLITE_BUSY_RECOVERY", "database is locked"),
    ],
)
def test_what_the_system_would_not_do_is_no_sign_of_damage(
    code: int, name: str, text: str, tmp_path: Path
) -> None:
    fault = fault_of_system("cannot open it", an_error(code, name, text), tmp_path)
    assert fault is not None
    assert not isinstance(fault, StoreDamaged)
    assert str(fault).startswith(f"cannot open it: {text}")
    sick = f"({name}): the disk of {tmp_path} does not read or write as it should"
    assert (sick in str(fault)) == (text == "disk I/O error")


@pytest.mark.parametrize(
    "error",
    [
        an_error(sqlite3.SQLITE_CORRUPT_VTAB, "SQLITE_CORRUPT_VTAB", "database disk image is malformed"),
        an_error(sqlite3.SQLITE_NOTADB, "SQLITE_NOTADB", "file is not a database"),
        an_error(sqlite3.SQLITE_ERROR, "SQLITE_ERROR", "no such table: alembic_version"),
        sqlite3.OperationalError("of the driver's own"),
        ValueError("a number that is none"),
    ],
)
def test_what_was_read_and_is_not_as_it_should_be_is_no_fault_of_the_system(
    error: Exception, tmp_path: Path
) -> None:
    assert fault_of_system("cannot open it", error, tmp_path) is None
