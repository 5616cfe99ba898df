"""What lies in the file, or was given to it, and is no figure.

A disk may alter a value without the file being any less a database. Such a row counts as empty, is told once,
and keeps nothing else from being read or written.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from gpunion.limits import MOMENT_MAX_S

# Each is known by its key, so that one that lies there for good is told once; no more than so many are told.
MET_MOST = 10_000
# What the database says of a value, as opposed to what it says of its disk.
OF_VALUES = (
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
    ArithmeticError,
    TypeError,
    ValueError,
)


class Damage:
    def __init__(self) -> None:
        self._met: set[tuple[str, ...]] = set()

    def met(self, *key: object) -> None:
        if len(self._met) < MET_MOST:
            self._met.add(tuple(map(str, key)))

    @property
    def rows(self) -> int:
        return len(self._met)

    def put_each(
        self, connection: sqlite3.Connection, statement: str, rows: Iterable[tuple[Any, ...]]
    ) -> None:
        """One that the database will not have is left out, the others go in."""
        for row in rows:
            try:
                connection.execute(statement, row)
            except OF_VALUES:
                self.met("given", statement.split()[:4], *row[:4])

    def sound(self, what: str, rows: Iterable[tuple[Any, ...]], *kinds: type) -> Iterator[tuple[Any, ...]]:
        """Rows that begin with a moment and have a value of its kind in each other column."""
        for row in rows:
            if is_moment(row[0]) and all(map(_is_a, row[1:], kinds)):
                yield row
            else:
                self.met(what, *row[:2])


def is_moment(value: object) -> bool:
    return _is_a(value, float) and value <= MOMENT_MAX_S  # type: ignore[operator]


def _is_a(value: object, kind: type) -> bool:
    """Of numbers what can be summed, so no infinity; nothing that is kept here is ever negative."""
    if kind is str:
        return isinstance(value, str)
    number = isinstance(value, int if kind is int else int | float)
    return number and math.isfinite(value) and value >= 0  # type: ignore[arg-type,operator]
