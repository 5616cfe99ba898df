"""Numbered delivery over a connection that may lose, double, delay or reorder frames.

Turns "at least once" into "once and in order" at the receiver. Knows nothing of sockets: the shell sends
what `due` gives it and feeds what arrives.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import itemgetter
from typing import Generic, TypeVar

from gpunion.domain.jobs.window import Subjob
from gpunion.domain.protocol.orders import Order, SetWindow, StartRun, TakeCheckpoint
from gpunion.domain.protocol.reports import (
    DepartureForetold,
    GpusKeptFree,
    GuestAskedToGo,
    NoticeGiven,
    Report,
    RunEnded,
)

T = TypeVar("T")

# Frames on the way to one peer at a time; more wait for acknowledgements. Bounds memory at a slow peer.
WINDOW = 256
# Reports that name a moment by their sender's clock.
_WITH_A_TIME = frozenset({NoticeGiven, GpusKeptFree, GuestAskedToGo, DepartureForetold, RunEnded})
# A clock-skew estimate older than this is forgotten, so that drift is followed.
SKEW_MEMORY_S = 60.0


@dataclass(slots=True)
class Sender(Generic[T]):
    """Keeps what is not yet acknowledged and says what to send (again)."""

    last_seq: int = 0
    waiting: dict[int, T] = field(default_factory=dict)
    _sent_s: dict[int, float] = field(default_factory=dict)

    def push(self, item: T) -> int:
        self.last_seq += 1
        self.waiting[self.last_seq] = item
        return self.last_seq

    def restore(self, items: Iterable[tuple[int, T]], last_seq: int) -> None:
        self.waiting = dict(sorted(items, key=itemgetter(0)))
        self.last_seq = max([last_seq, *self.waiting])

    def acknowledge(self, up_to: int) -> list[int]:
        waiting = self.waiting
        if not waiting or next(iter(waiting)) > up_to:  # they lie there in their order
            return []
        done = [seq for seq in waiting if seq <= up_to]
        for seq in done:
            del waiting[seq]
            self._sent_s.pop(seq, None)
        return done

    def forget_all(self) -> None:
        self.waiting.clear()
        self._sent_s.clear()

    def reconnected(self) -> None:
        """What was sent on the old connection may be lost; all of it is due again."""
        self._sent_s.clear()

    def due(self, now_s: float, resend_s: float) -> list[tuple[int, T]]:
        found = []
        for seq, item in islice(self.waiting.items(), WINDOW):
            sent_s = self._sent_s.get(seq)
            if sent_s is None or sent_s + resend_s <= now_s:
                self._sent_s[seq] = now_s
                found.append((seq, item))
        return found


@dataclass(slots=True)
class Receiver:
    """Takes each number once and in order; anything else waits to be sent again."""

    last_seq: int = 0

    def expects(self, seq: int) -> bool:
        return seq == self.last_seq + 1

    def took(self, seq: int) -> None:
        self.last_seq = max(self.last_seq, seq)


@dataclass(slots=True)
class Skew:
    """How far the peer's clock is behind ours, at most: the least of (received - sent) lately seen."""

    offset_s: float | None = None
    _learnt_s: float = 0.0

    def learn(self, now_s: float, sent_s: float) -> None:
        seen = now_s - sent_s
        stale = now_s - self._learnt_s > SKEW_MEMORY_S
        if self.offset_s is None or seen <= self.offset_s or stale:
            self.offset_s, self._learnt_s = seen, now_s

    def here(self, their_s: float) -> float:
        return their_s + (self.offset_s or 0.0)


def report_in_our_time(report: Report, skew: Skew) -> Report:
    if type(report) not in _WITH_A_TIME:
        return report
    match report:
        case NoticeGiven():
            return replace(report, deadline_s=skew.here(report.deadline_s))
        case GpusKeptFree(until_s=float(until_s)):
            return replace(report, until_s=skew.here(until_s))
        case GuestAskedToGo(deadline_s=float(deadline_s)):
            return replace(report, deadline_s=skew.here(deadline_s))
        case DepartureForetold(at_s=float(at_s)) | RunEnded(at_s=float(at_s)):
            return replace(report, at_s=skew.here(at_s))
        case _:
            return report


def order_in_our_time(order: Order, skew: Skew) -> Order:
    if isinstance(order, TakeCheckpoint) and order.by_s is not None:
        return replace(order, by_s=skew.here(order.by_s))
    if isinstance(order, StartRun | SetWindow) and order.subjob is not None:
        return replace(order, subjob=_subjob_in_our_time(order.subjob, skew))
    return order


def _subjob_in_our_time(subjob: Subjob, skew: Skew) -> Subjob:
    return subjob if subjob.ends_s is None else replace(subjob, ends_s=skew.here(subjob.ends_s))
