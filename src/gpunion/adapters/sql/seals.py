"""Checksums of rows, and how many rows of which checksums each table has.

Every row carries a seal over its table, its key and its values, so that one that was altered, or put in the
place of another, is told from one that we wrote. What a table should hold as a whole is one number of rows
and one sum of their seals, written with every transaction: a row that is gone, or an older one in its place,
is noticed by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from typing import Any

import msgspec
from sqlalchemy import Float, Table

from . import tables

Row = dict[str, Any]
Key = tuple[Any, ...]
SEAL = "seal"
_ALL = 2**64
_packed = msgspec.msgpack.Encoder().encode


def seal_of(table: Table, row: Mapping[str, Any]) -> int:
    """Eight bytes are enough against chance; nobody who may write the database is kept from anything."""
    table_name, names, floats = _columns(table)
    values = [table_name, *[row[name] for name in names]]
    for place in floats:
        if type(values[place]) is int:  # the database gives back what it keeps
            values[place] = float(values[place])
    return int.from_bytes(blake2b(_packed(values), digest_size=8).digest(), "big", signed=True)


def sealed(table: Table, row: Row) -> Row:
    return {**row, SEAL: seal_of(table, row)}


def key_of(table: Table, row: Mapping[str, Any]) -> Key:
    return tuple(row[name] for name in key_names(table))


@cache
def key_names(table: Table) -> tuple[str, ...]:
    return tuple(str(column.name) for column in table.primary_key.columns)


@cache
def _columns(table: Table) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
    """The table's name, those of all its columns but the seal, and which of these are floats."""
    columns = [column for column in table.columns if column.name != SEAL]
    floats = (place for place, column in enumerate(columns, 1) if isinstance(column.type, Float))
    # Plain texts: names of the library are of a class of its own.
    return str(table.name), tuple(str(column.name) for column in columns), tuple(floats)


class Tally:
    """What all tables hold. A transaction works on an `Entry`, which counts once it is committed."""

    def __init__(self) -> None:
        self._seals: dict[str, dict[Key, int]] = {str(table.name): {} for table in tables.COUNTED}
        self._totals: dict[str, tuple[int, int]] = {str(table.name): (0, 0) for table in tables.COUNTED}
        self._orders: dict[str, set[int]] = {}  # numbers, by node

    def begin_with(self, name: str, seals: Mapping[Key, int], *, missing: int = 0) -> None:
        """`missing`: rows that are known to be gone, and stay counted so that they are missed again."""
        self._seals[name] = dict(seals)
        self._totals[name] = (len(seals) + missing, sum(seals.values()) % _ALL)
        if name == tables.orders.name:
            self._orders = {}
            for node_id, seq in seals:
                self._orders.setdefault(node_id, set()).add(seq)

    def entry(self) -> Entry:
        return Entry(self._seals, self._totals, self._orders)

    def take(self, entry: Entry) -> None:
        for (name, key), seal in entry.changed.items():
            if seal is not None:
                self._seals[name][key] = seal
            else:
                self._seals[name].pop(key, None)
            if name == tables.orders.name:
                numbers = self._orders.setdefault(key[0], set())
                (numbers.discard if seal is None else numbers.add)(key[1])
        self._totals.update(entry.totals)


class Entry:
    """What one transaction changes."""

    def __init__(
        self,
        seals: Mapping[str, Mapping[Key, int]],
        totals: Mapping[str, tuple[int, int]],
        orders: Mapping[str, set[int]],
    ) -> None:
        self._seals = seals
        self._orders = orders
        self.totals = dict(totals)
        self.changed: dict[tuple[str, Key], int | None] = {}

    def put(self, table: Table, rows: Iterable[Row]) -> list[Row]:
        """The rows with their seals."""
        found = []
        for row in rows:
            seal = seal_of(table, row)
            self._change(table.name, key_of(table, row), seal)
            found.append({**row, SEAL: seal})
        return found

    def drop(self, table: Table, keys: Iterable[Key]) -> None:
        for key in keys:
            self._change(table.name, key, None)

    def drop_orders(self, node_id: str, up_to: int) -> None:
        numbers = [seq for seq in self._orders.get(node_id, ()) if seq <= up_to]
        self.drop(tables.orders, [(node_id, seq) for seq in numbers])

    def _change(self, name: str, key: Key, seal: int | None) -> None:
        if name not in self.totals:
            return  # the log, which only grows
        before = self.changed.get((name, key), self._seals[name].get(key))
        count, total = self.totals[name]
        count += (seal is not None) - (before is not None)
        self.totals[name] = (count, (total + (seal or 0) - (before or 0)) % _ALL)
        self.changed[name, key] = seal


def totals_text(totals: Mapping[str, tuple[int, int]], schema: str) -> str:
    return msgspec.json.encode((schema, totals)).decode()


def totals_from(text: str) -> tuple[str, dict[str, tuple[int, int]]]:
    """ValueError where it is not one of ours."""
    return msgspec.json.decode(text, type=tuple[str, dict[str, tuple[int, int]]])


def fingerprint(schema: Sequence[tuple[Any, ...]]) -> str:
    """Of what the database says its tables and indexes are."""
    return blake2b(repr(sorted(map(str, schema))).encode(), digest_size=8).hexdigest()
