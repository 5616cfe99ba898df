"""What a store takes in one transaction, and what it gives back to a coordinator that starts."""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.domain.ids import NodeId
from gpunion.domain.protocol.decision import AgentDecision, AgentRecord, Decision, Record
from gpunion.domain.protocol.events import AgentEvent, CoordinatorEvent, LeaseRenewed
from gpunion.domain.protocol.orders import Order
from gpunion.domain.protocol.reports import Report
from gpunion.domain.protocol.timers import AgentTimer, CoordinatorTimer


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedOrder:
    node_id: NodeId
    seq: int
    order: Order


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxMark:
    """Up to which of a node's reports the coordinator has committed."""

    node_id: NodeId
    incarnation: str
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    at_s: float
    event: CoordinatorEvent
    decision: Decision
    orders: tuple[NumberedOrder, ...] = ()
    mark: InboxMark | None = None
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCampus:
    """All a coordinator needs to go on where another one stopped."""

    records: tuple[Record, ...] = ()
    timers: tuple[tuple[CoordinatorTimer, float], ...] = ()
    orders: tuple[NumberedOrder, ...] = ()  # not yet acknowledged
    last_order_seq: tuple[tuple[NodeId, int], ...] = ()
    marks: tuple[InboxMark, ...] = ()
    left_out: tuple[str, ...] = ()  # what could not be read and is not missed, in words


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedReport:
    seq: int
    report: Report


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCommit:
    at_s: float
    event: AgentEvent
    decision: AgentDecision
    reports: tuple[NumberedReport, ...] = ()
    order_seq: int | None = None  # the order this event came from

    @property
    def volatile(self) -> bool:
        """Nothing a restart would miss, so no write is due: leases are renewed every few seconds."""
        return self.decision.empty or isinstance(self.event, LeaseRenewed)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAgent:
    incarnation: str
    records: tuple[AgentRecord, ...] = ()
    timers: tuple[tuple[AgentTimer, float], ...] = ()
    reports: tuple[NumberedReport, ...] = ()  # not yet acknowledged
    last_report_seq: int = 0
    order_seq: int = 0
