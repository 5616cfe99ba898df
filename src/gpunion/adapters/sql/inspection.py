"""Looking at a database before anything is written to it: is it whole, and which rows are as we wrote them?

Over a connection of its own that cannot write, so that a start that is refused leaves everything as it was,
the log beside the database included.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Table

from gpunion.ports.database import StoreBroken, StoreDamaged, StoreFault

from . import tables
from .engines import fault_of_system
from .migrate import SCRIPTS
from .seals import SEAL, Key, Row, fingerprint, key_names, key_of, seal_of, totals_from

SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%'"
# What SQLite finds wrong with single values is for their seals to say.
_OF_ONE_ROW = ("NULL value in", "TEXT value in", "NUMERIC value in", "non-INT", "non-REAL", "non-TEXT")
_SAID_AT_MOST = 3
_BUSY_TIMEOUT_S = 5.0


class _Damaged(Exception):
    """What is wrong with its structure."""


class _Text(bytes):
    """Of a column that holds text: decoded by us, since what was altered may be no text any more."""


@dataclass(slots=True)
class Seen:
    """One table."""

    good: list[Row] = field(default_factory=list)
    bad: list[Row] = field(default_factory=list)  # values that are no text are None
    seals: dict[Key, int] = field(default_factory=dict)  # as they stand there, right or wrong
    short_by: int = 0  # rows that should be there and are not; less than none: too many
    sum_differs: bool = False


@dataclass(slots=True)
class Sight:
    """A database as it is found."""

    leader: Row | None = None
    seen: dict[str, Seen] = field(default_factory=dict)
    submitted: frozenset[str] = frozenset()  # jobs that the log says were accepted
    unused: bool = False  # it has its tables and nothing in them: a first start that was cut short


def look(path: Path) -> Sight | None:
    """None where it has no tables yet. StoreDamaged where nobody can rely on its structure."""
    try:
        with closing(_opened(path)) as connection:
            if not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return None
            _check_version(connection)
            _check_structure(connection)
            return _sight(connection)
    except _Damaged as error:
        raise StoreDamaged(f"{path} is damaged: {error}", readable=False) from error
    except (sqlite3.Error, ValueError, OverflowError) as error:
        raise _broken(path, error) from error


def _broken(path: Path, error: Exception) -> StoreFault:
    """Nobody is told to give a campus up for a disk that is full or sick."""
    fault = fault_of_system(f"cannot open {path}", error, path.parent)
    return fault or StoreDamaged(f"{path} cannot be read: {error}", readable=False)


def _opened(path: Path) -> sqlite3.Connection:
    address = f"file:{quote(str(path))}?mode=ro"
    connection = sqlite3.connect(address, uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
    connection.text_factory = _Text
    connection.execute("BEGIN")
    return connection


def _check_version(connection: sqlite3.Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    newest = ScriptDirectory.from_config(config).get_current_head() or ""
    found = [_plain(row[0]) for row in connection.execute("SELECT version_num FROM alembic_version")]
    if found == [newest]:
        return
    if len(found) == 1 and isinstance(found[0], str) and found[0].isdecimal():
        raise StoreBroken(
            f"this database has a schema this version does not know ({found[0]}, not {newest}); "
            "it was probably written by a newer gpunion: use that version, or another data directory"
        )
    raise _Damaged("the version of its tables cannot be read")


def _check_structure(connection: sqlite3.Connection) -> None:
    checks = ["quick_check", *(f"integrity_check({table.name})" for table in tables.COUNTED)]
    found: list[str] = []
    for check in checks:
        for (line,) in connection.execute(f"PRAGMA {check}"):
            text = _Text(line).decode(errors="replace")
            if text != "ok" and not text.startswith(_OF_ONE_ROW) and text not in found:
                found.append(text)
    if found:
        said = "; ".join(line.splitlines()[-1] for line in found[:_SAID_AT_MOST])
        more = f", and {len(found) - _SAID_AT_MOST} more" if len(found) > _SAID_AT_MOST else ""
        raise _Damaged(f"{said}{more}")


def _sight(connection: sqlite3.Connection) -> Sight:
    sight = Sight(seen={table.name: _table(connection, table) for table in tables.COUNTED})
    leaders = _table(connection, tables.leader)
    sight.unused = not leaders.seals and not any(seen.seals for seen in sight.seen.values())
    if len(leaders.good) == 1 and not leaders.bad:
        sight.leader = leaders.good[0]
        schema, totals = totals_from(sight.leader["totals"])
        if schema != schema_of(connection.execute(SCHEMA).fetchall()):
            raise _Damaged("its tables are not as they were made")
        for name, seen in sight.seen.items():
            count, total = totals.get(name, (0, 0))
            seen.short_by = count - len(seen.good) - len(seen.bad)
            seen.sum_differs = total != sum(seen.seals.values()) % 2**64
    if sight.seen["jobs"].short_by > 0 or sight.seen["jobs"].bad:
        lines = connection.execute("SELECT reasons FROM decisions WHERE event = 'JobSubmitted'")
        sight.submitted = frozenset(_accepted(row[0] for row in lines))
    return sight


def schema_of(lines: Iterable[Any]) -> str:
    return fingerprint([tuple(_plain(value) for value in line) for line in lines])


def _table(connection: sqlite3.Connection, table: Table) -> Seen:
    names = [column.name for column in table.columns]
    keys = key_names(table)
    seen = Seen()
    columns = ", ".join(f'"{name}"' for name in names)
    for number, values in enumerate(connection.execute(f"SELECT {columns} FROM {table.name} NOT INDEXED")):
        row = dict(zip(names, map(_plain, values), strict=True))
        raw = row.pop(SEAL)
        seal = raw if isinstance(raw, int) else 0
        if isinstance(raw, int) and seal_of(table, row) == seal and None not in key_of(table, row):
            seen.good.append(row)
            seen.seals[key_of(table, row)] = seal
        else:
            seen.bad.append(row)
            key = key_of(table, row)
            seen.seals[key if None not in key else (number, "?")[: len(keys)]] = seal
    seen.good.sort(key=lambda row: key_of(table, row))
    return seen


def _accepted(reasons: Iterator[Any]) -> Iterator[str]:
    import json

    for text in reasons:
        try:
            plain = json.loads(text)
            yield from (one["subject"] for one in plain if one["why"] == "submitted")
        except (ValueError, TypeError, KeyError):
            continue  # a line that cannot be read


def _plain(value: Any) -> Any:
    if isinstance(value, _Text):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    return value
