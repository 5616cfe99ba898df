"""The simplest thing that keeps the store's promises. Read it to know what a store has to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.protocol.commit import Commit, InboxMark, NumberedOrder, SavedCampus
from gpunion.domain.protocol.decision import Record
from gpunion.domain.protocol.effects import CancelTimer, ForgetOrders, SetTimer
from gpunion.domain.protocol.events import JobSubmitted, TimerFired
from gpunion.domain.protocol.timers import CoordinatorTimer, text_of
from gpunion.ports.database import (
    LOG_PAGE_BYTES,
    Credential,
    CredentialKind,
    LoggedDecision,
    Overtaken,
    Redeemed,
    StoreFault,
    StoreTaken,
    is_logged,
    log_line,
    weight_of,
)


@dataclass
class Disk:
    """What outlives a store that is closed or thrown away."""

    term: int = 0
    holder: str = ""
    until_s: float = 0.0
    newest_s: float = 0.0
    records: dict[tuple[str, str], Record] = field(default_factory=dict)
    timers: dict[CoordinatorTimer, float] = field(default_factory=dict)
    orders: dict[tuple[NodeId, int], NumberedOrder] = field(default_factory=dict)
    last_order_seq: dict[NodeId, int] = field(default_factory=dict)
    marks: dict[NodeId, InboxMark] = field(default_factory=dict)
    lines: list[LoggedDecision] = field(default_factory=list)
    keys: dict[str, JobId] = field(default_factory=dict)
    credentials: dict[tuple[CredentialKind, str], Credential] = field(default_factory=dict)
    join_tokens: dict[str, tuple[float, bool]] = field(default_factory=dict)  # until when; used
    place_marks: dict[str, str] = field(default_factory=dict)


class MemoryStore:
    def __init__(self, disk: Disk | None = None) -> None:
        self.disk = Disk() if disk is None else disk
        self.faults: list[StoreFault] = []  # raised by the next commits, for tests of what follows

    async def open(self, *, holder: str, now_s: float, lead_s: float) -> int:
        disk = self.disk
        if disk.holder and disk.until_s > now_s:
            raise StoreTaken(f"another coordinator ({disk.holder}) leads on this store")
        disk.term, disk.holder, disk.until_s = disk.term + 1, holder, now_s + lead_s
        return disk.term

    async def renew(self, *, term: int, now_s: float, lead_s: float) -> None:
        self._fence(term)
        self.disk.until_s = now_s + lead_s

    async def newest_s(self) -> float:
        return self.disk.newest_s

    async def load(self) -> SavedCampus:
        disk = self.disk
        return SavedCampus(
            records=tuple(disk.records.values()),
            timers=tuple(sorted(disk.timers.items(), key=lambda set_: text_of(set_[0]))),
            orders=tuple(disk.orders[key] for key in sorted(disk.orders)),
            last_order_seq=tuple(sorted(disk.last_order_seq.items())),
            marks=tuple(disk.marks[node_id] for node_id in sorted(disk.marks)),
        )

    async def commit(self, commit: Commit, *, term: int) -> int:
        if self.faults:
            raise self.faults.pop(0)
        self._fence(term)
        disk = self.disk
        disk.newest_s = max(disk.newest_s, commit.at_s)
        for record in commit.decision.changes:
            disk.records[type(record).__name__, record.id] = record
        self._apply_effects(commit)
        for numbered in commit.orders:
            disk.orders[numbered.node_id, numbered.seq] = numbered
            disk.last_order_seq[numbered.node_id] = numbered.seq
        if commit.mark is not None:
            disk.marks[commit.mark.node_id] = commit.mark
        if commit.idempotency_key is not None and isinstance(commit.event, JobSubmitted):
            disk.keys[commit.idempotency_key] = commit.event.job_id
        if is_logged(commit):
            disk.lines.append(log_line(commit, len(disk.lines) + 1))
        return len(disk.lines)

    async def acknowledged(self, node_id: NodeId, up_to_seq: int) -> None:
        self._forget_orders(node_id, up_to_seq)

    async def job_for_key(self, idempotency_key: str) -> JobId | None:
        return self.disk.keys.get(idempotency_key)

    async def log(
        self, *, since_seq: int = 0, subject: str | None = None, limit: int = 500
    ) -> Sequence[LoggedDecision]:
        lines = [
            line
            for line in self.disk.lines
            if line.seq > since_seq and (subject is None or subject in line.subjects)
        ]
        return self._page(lines[:limit])

    async def close(self, *, term: int) -> None:
        if self.disk.term == term:
            self.disk.holder = ""

    async def credentials(self) -> Sequence[Credential]:
        return list(self.disk.credentials.values())

    async def put_credential(self, credential: Credential) -> None:
        self.disk.credentials[credential.kind, credential.name] = credential

    async def put_join_token(self, digest: str, *, expires_s: float) -> None:
        self.disk.join_tokens[digest] = (expires_s, False)

    async def redeem(self, digest: str, *, now_s: float, credential: Credential) -> Redeemed:
        if digest not in self.disk.join_tokens:
            return Redeemed.UNKNOWN
        expires_s, used = self.disk.join_tokens[digest]
        if used:
            return Redeemed.USED
        if now_s >= expires_s:
            return Redeemed.EXPIRED
        self.disk.join_tokens[digest] = (expires_s, True)
        await self.put_credential(credential)
        return Redeemed.TAKEN

    async def place_marks(self) -> Mapping[str, str]:
        return dict(self.disk.place_marks)

    async def put_place_mark(self, directory: str, mark: str) -> None:
        self.disk.place_marks[directory] = mark

    @staticmethod
    def _page(lines: list[LoggedDecision]) -> list[LoggedDecision]:
        page: list[LoggedDecision] = []
        weight = 0
        for line in lines:
            weight += weight_of(line)
            if page and weight > LOG_PAGE_BYTES:
                break
            page.append(line)
        return page

    def _fence(self, term: int) -> None:
        if self.disk.term != term:
            raise Overtaken(f"term {self.disk.term} leads; term {term} is over")

    def _apply_effects(self, commit: Commit) -> None:
        if isinstance(commit.event, TimerFired):
            self.disk.timers.pop(commit.event.timer, None)
        for effect in commit.decision.effects:
            match effect:
                case SetTimer():
                    self.disk.timers[effect.timer] = effect.at_s
                case CancelTimer():
                    self.disk.timers.pop(effect.timer, None)
                case ForgetOrders():
                    self._forget_orders(effect.node_id, None)
                case _:
                    pass  # an order comes numbered, in commit.orders

    def _forget_orders(self, node_id: NodeId, up_to_seq: int | None) -> None:
        gone = [
            key
            for key in self.disk.orders
            if key[0] == node_id and (up_to_seq is None or key[1] <= up_to_seq)
        ]
        for key in gone:
            del self.disk.orders[key]
