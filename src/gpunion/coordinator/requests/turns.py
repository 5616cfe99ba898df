"""Whose bytes are looked at next: everybody's in turn, a little at a time.

Reading costs what the sender likes: a megabyte of chunks of one byte each takes seconds. So what arrives
waits, no more than a few milliseconds of it are looked at before everything else has its turn, and those who
send take turns as well, however many connections each of them has.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import structlog

# How long others wait for what somebody sends.
TURN_S = 0.005

log = structlog.get_logger("gpunion.coordinator")


class Reader(Protocol):
    """A connection of which something has arrived."""

    @property
    def belongs_to(self) -> str:
        """Who sends it, as far as that is known: a name, or an address."""
        ...

    def read_some(self) -> bool:
        """Whether there is more that could be looked at now."""
        ...

    def give_up(self) -> None:
        """What arrived could not be looked at."""
        ...


class Turns:
    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        elapsed_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`call_soon`: when everything that is ready now has had its turn."""
        self._call_soon = call_soon
        self._elapsed_s = elapsed_s
        self._waiting: dict[str, dict[Reader, None]] = {}  # by whom it belongs to, in order
        self._group_of: dict[Reader, str] = {}
        self._coming = False

    def wants(self, reader: Reader) -> None:
        """May be told again."""
        if reader in self._group_of:
            return
        group = reader.belongs_to
        self._group_of[reader] = group
        self._waiting.setdefault(group, {})[reader] = None
        self._go_on()

    def gone(self, reader: Reader) -> None:
        group = self._group_of.pop(reader, None)
        if group is not None and group in self._waiting:
            self._waiting[group].pop(reader, None)
            if not self._waiting[group]:
                del self._waiting[group]

    def _go_on(self) -> None:
        if self._waiting and not self._coming:
            self._coming = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        until_s = self._elapsed_s() + TURN_S
        while self._waiting:
            self._next()
            if self._elapsed_s() >= until_s:
                break
        self._coming = False
        self._go_on()

    def _next(self) -> None:
        group, readers = next(iter(self._waiting.items()))
        reader = next(iter(readers))
        del self._waiting[group], readers[reader], self._group_of[reader]
        if readers:
            self._waiting[group] = readers  # behind the others
        try:
            more = reader.read_some()
        except Exception:
            log.exception("not_read", sender=group)
            reader.give_up()
            return
        if more:
            self.wants(reader)
