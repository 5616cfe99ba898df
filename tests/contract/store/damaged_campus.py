"""A campus whose database is damaged: how it is made, and two hundred ways to harm it."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpunion.adapters.sql.database import SqlStore
from gpunion.domain.ids import JobId
from gpunion.domain.jobs.account import Quota
from gpunion.domain.protocol.commit import Commit
from gpunion.domain.protocol.events import JobSubmitted, OwnerReclaimed, QuotaSet
from gpunion.ports.database import Credential, CredentialKind
from tests.builders.campus import Campus
from tests.builders.values import a_spec

DATABASE = "gpunion.db"
ADMIN = "admin.token"
NODES = ("a", "b", "c", "d")
RECORDS = ("jobs", "runs", "nodes", "checkpoints", "migrations", "accounts", "quotas", "reliabilities")
TABLES = (
    *RECORDS,
    "timers",
    "orders",
    "channels",
    "marks",
    "credentials",
    "idempotency",
    "decisions",
    "leader",
)


def a_lived_campus() -> Campus:
    """Jobs that wait, run, have moved, ended, were stopped; nodes that were reclaimed and came back."""
    campus = Campus()
    for node in NODES:
        campus.adds(node)
    for number in range(8):
        campus.submits(f"job{number}", a_spec())
        campus.advance(20.0)
    campus.decide(QuotaSet(quota=Quota(id="user:ann", gpus=2, set_s=campus.now_s)))
    campus.stops("job1")
    campus.advance(400.0)
    machine = campus.machine_of("job0")
    machine.owner(OwnerReclaimed(notice_s=60.0))
    campus.advance(200.0)
    for number in range(8, 14):
        campus.submits(f"job{number}", a_spec())
    campus.advance(30.0)
    return campus


@dataclass(frozen=True, slots=True)
class Place:
    """What a coordinator that was killed leaves: the database, its log, and the file beside it."""

    folder: Path

    @property
    def database(self) -> Path:
        return self.folder / DATABASE

    @property
    def wal(self) -> Path:
        return self.folder / f"{DATABASE}-wal"

    def store(self) -> SqlStore:
        return SqlStore(self.database, witnesses=(self.folder / ADMIN,))

    def copied(self, to: Path) -> Place:
        return Place(Path(shutil.copytree(self.folder, to)))

    def fold_log(self) -> None:
        """All of the log into the database, where its pages cover no damage any more."""
        connection = sqlite3.connect(self.database)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()


async def written(commits: list[Commit], folder: Path) -> Place:
    """Copied while it was open, with half of it still in the log: as after kill -9."""
    folder.mkdir()
    live = Place(folder / "live")
    live.folder.mkdir()
    store = live.store()
    term = await store.open(holder="test", now_s=900.0, lead_s=30.0)
    (live.folder / ADMIN).write_text("token\n")
    for number, name in enumerate(("admin", *NODES)):
        kind = CredentialKind.NODE if number else CredentialKind.ADMIN
        await store.put_credential(
            Credential(kind=kind, name=name, digest=f"{number:064d}", created_s=900.0, lab="lab")
        )
    await store.put_place_mark("/vault", "mark")
    for number, commit in enumerate(commits):
        if number == len(commits) // 2:
            with sqlite3.connect(live.database) as other:
                other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            other.close()
        await store.commit(_keyed(commit), term=term)
    killed = live.copied(folder / "killed")
    await store.close(term=term)
    return killed


def _keyed(commit: Commit) -> Commit:
    from dataclasses import replace

    event = commit.event
    return (
        replace(commit, idempotency_key=f"key-{event.job_id}") if isinstance(event, JobSubmitted) else commit
    )


# --- harm -------------------------------------------------------------------------------------------

Harm = Callable[[Place, random.Random], str]


def flip_in_database(place: Place, chance: random.Random) -> str:
    return _flip(place.database, chance)


def flip_in_log(place: Place, chance: random.Random) -> str:
    return _flip(place.wal, chance)


def smear_database(place: Place, chance: random.Random) -> str:
    return _smear(place.database, chance)


def flip_in_whole_database(place: Place, chance: random.Random) -> str:
    place.fold_log()
    return _flip(place.database, chance)


def smear_whole_database(place: Place, chance: random.Random) -> str:
    place.fold_log()
    return _smear(place.database, chance)


def cut_whole_database(place: Place, chance: random.Random) -> str:
    place.fold_log()
    return _cut(place.database, chance)


def smear_log(place: Place, chance: random.Random) -> str:
    return _smear(place.wal, chance)


def cut_database(place: Place, chance: random.Random) -> str:
    return _cut(place.database, chance)


def cut_log(place: Place, chance: random.Random) -> str:
    return _cut(place.wal, chance)


def lose_log(place: Place, chance: random.Random) -> str:
    place.wal.unlink()
    return "the log is gone"


def lose_database(place: Place, chance: random.Random) -> str:
    for one in chance.sample([place.database, place.wal], chance.choice((1, 2))):
        one.unlink()
    return "the database, or its log, or both are gone"


def empty_database(place: Place, chance: random.Random) -> str:
    place.database.write_bytes(b"")
    return "the database is empty"


def alter_a_row(place: Place, chance: random.Random) -> str:
    return _with_sql(place, chance, _alter)


def drop_a_row(place: Place, chance: random.Random) -> str:
    return _with_sql(place, chance, _drop)


def put_an_older_row(place: Place, chance: random.Random) -> str:
    """What one row was before is put back, seal and all."""
    return _with_sql(place, chance, _swap)


HARMS: tuple[Harm, ...] = (
    flip_in_database,
    flip_in_log,
    flip_in_whole_database,
    smear_database,
    smear_whole_database,
    cut_whole_database,
    smear_log,
    cut_database,
    cut_log,
    alter_a_row,
    alter_a_row,
    drop_a_row,
    drop_a_row,
    put_an_older_row,
    lose_log,
    lose_database,
    empty_database,
)


def _flip(file: Path, chance: random.Random) -> str:
    data = bytearray(file.read_bytes())
    at = chance.randrange(len(data))
    data[at] ^= 1 << chance.randrange(8)
    file.write_bytes(data)
    return f"a bit of {file.name} at {at}"


def _smear(file: Path, chance: random.Random) -> str:
    data = bytearray(file.read_bytes())
    at, length = chance.randrange(len(data)), chance.choice((4, 64, 512, 4096))
    data[at : at + length] = chance.randbytes(len(data[at : at + length]))
    file.write_bytes(data)
    return f"{length} bytes of {file.name} at {at}"


def _cut(file: Path, chance: random.Random) -> str:
    length = chance.randrange(file.stat().st_size)
    with open(file, "r+b") as stream:
        stream.truncate(length)
    return f"{file.name} cut to {length}"


def _with_sql(
    place: Place, chance: random.Random, harm: Callable[[sqlite3.Connection, str, random.Random], str]
) -> str:
    with sqlite3.connect(place.database) as connection:
        table = chance.choice([name for name in TABLES if _rows(connection, name)])
        told = harm(connection, table, chance)
    connection.close()
    return told


def _rows(connection: sqlite3.Connection, table: str) -> list[int]:
    return [row[0] for row in connection.execute(f"SELECT rowid FROM {table}")]


def _alter(connection: sqlite3.Connection, table: str, chance: random.Random) -> str:
    row = chance.choice(_rows(connection, table))
    column = chance.choice([line[1] for line in connection.execute(f"PRAGMA table_info({table})")])
    (value,) = connection.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (row,)).fetchone()
    changed = value + 1 if isinstance(value, int | float) else _another_text(value or "x", chance)
    connection.execute(f"UPDATE OR REPLACE {table} SET {column} = ? WHERE rowid = ?", (changed, row))
    return f"{column} of a row of {table}"


def _another_text(text: str, chance: random.Random) -> str | None:
    at = chance.randrange(len(text))
    return chance.choice((text[:at], text[:at] + "#" + text[at + 1 :], "null", '{"type":"Account"}'))


def _drop(connection: sqlite3.Connection, table: str, chance: random.Random) -> str:
    connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (chance.choice(_rows(connection, table)),))
    return f"a row of {table} dropped"


def _swap(connection: sqlite3.Connection, table: str, chance: random.Random) -> str:
    """Everything of another row but the key."""
    rows = _rows(connection, table)
    keys = [line[1] for line in connection.execute(f"PRAGMA table_info({table})") if line[5]]
    names = [line[1] for line in connection.execute(f"PRAGMA table_info({table})") if not line[5]]
    to, of = chance.choice(rows), chance.choice(rows)
    for name in names:
        if (table, name) != ("credentials", "digest"):
            connection.execute(
                f"UPDATE {table} SET {name} = (SELECT {name} FROM {table} WHERE rowid = ?) WHERE rowid = ?",
                (of, to),
            )
    return f"{', '.join(names)} of a row of {table} put under {', '.join(keys)} of another"


def job_ids(campus: Campus) -> set[JobId]:
    return set(campus.station.engine.state.jobs)
