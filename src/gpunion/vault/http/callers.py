"""Who is connected to a server, and who gives way when all places are taken. Any number of threads.

Whoever connects is a stranger until the server knows who asks. Of strangers the oldest from the address that
has the most goes first, so that a newcomer always has a place and nobody can take up all by themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import Generic, TypeVar

C = TypeVar("C", bound=Hashable)
# Whoever has one address of IPv6 has all that begin alike.
ONE_HOLDER_BITS = 64


@dataclass(slots=True)
class _Groups(Generic[C]):
    """Of those who are here, by whom they belong to, the oldest of each first."""

    count: int = 0
    by_name: dict[str, dict[C, None]] = field(default_factory=dict)

    def add(self, one: C, name: str) -> None:
        self.by_name.setdefault(name, {})[one] = None
        self.count += 1

    def remove(self, one: C, name: str) -> None:
        group = self.by_name[name]
        del group[one]
        self.count -= 1
        if not group:
            del self.by_name[name]

    def oldest_of(self, name: str, most: int | None) -> C | None:
        """Where there are more than that."""
        group = self.by_name[name]
        return next(iter(group)) if most is not None and len(group) > most else None

    def first_to_go(self) -> C:
        """Where several have as many, of whom has been here longest."""
        group = max(self.by_name.values(), key=len)
        return next(iter(group))


class NoPlace(Exception):
    """All places are taken by those who are known."""


class Callers(Generic[C]):
    def __init__(self, most: int, *, strangers_most: int | None = None, known_give_way: bool = False) -> None:
        """`known_give_way`: where all places are taken by known ones, a newcomer has that of one of them."""
        self._most = most
        self._strangers_most = most if strangers_most is None else strangers_most
        self._known_give_way = known_give_way
        self._strangers: _Groups[C] = _Groups()
        self._known: _Groups[C] = _Groups()
        self._names: dict[C, tuple[_Groups[C], str]] = {}
        self._lock = threading.Lock()

    def come(self, one: C, address: str) -> C | None:
        """Who has to be hung up on to make room, and is not here any more. NoPlace: the newcomer itself."""
        with self._lock:
            leaver = self._leaver()
            if leaver is not None:
                self._remove(leaver)
            self._add(one, self._strangers, _holder(address))
            return leaver

    def know(self, one: C, name: str, most: int | None = None) -> C | None:
        """No stranger any more. May be told again; of one that had to go it is not heard. Of more than `most`
        with this name: who has to be hung up on, and is not here any more."""
        with self._lock:
            if one not in self._names:
                return None
            self._remove(one)
            self._add(one, self._known, name)
            leaver = self._known.oldest_of(name, most)
            if leaver is not None:
                self._remove(leaver)
            return leaver

    def go(self, one: C) -> None:
        """May be told again."""
        with self._lock:
            if one in self._names:
                self._remove(one)

    def _leaver(self) -> C | None:
        full = len(self._names) >= self._most
        if self._strangers.count and (full or self._strangers.count >= self._strangers_most):
            return self._strangers.first_to_go()
        if not full:
            return None
        if not self._known_give_way:
            raise NoPlace
        return self._known.first_to_go()

    def _add(self, one: C, groups: _Groups[C], name: str) -> None:
        groups.add(one, name)
        self._names[one] = (groups, name)

    def _remove(self, one: C) -> None:
        groups, name = self._names.pop(one)
        groups.remove(one, name)


def _holder(address: str) -> str:
    try:
        number = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(number, IPv6Address) and number.ipv4_mapped is None:
        return f"{int(number) >> (128 - ONE_HOLDER_BITS):x}"
    return str(getattr(number, "ipv4_mapped", None) or number)
