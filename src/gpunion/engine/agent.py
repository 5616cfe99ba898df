"""The agent's brain: the owner's word first, then the coordinator's. Its timers need nobody."""

from __future__ import annotations

from typing import assert_never

from gpunion.domain.decision import AgentDecision
from gpunion.domain.events import (
    AgentEvent,
    AgentStarted,
    CheckpointNotShipped,
    CheckpointShipped,
    GuestExited,
    GuestSaved,
    GuestStarted,
    GuestStartFailed,
    LeaseRenewed,
    OrderReceived,
    OutputShipped,
    OwnerKilled,
    OwnerPaused,
    OwnerReclaimed,
    OwnerResumed,
    TimerFired,
)
from gpunion.domain.node import NodeFacts
from gpunion.domain.timing import Timing
from gpunion.engine.agent_draft import AgentDraft
from gpunion.engine.handlers import guests, lease, orders, ownership, restart, saves
from gpunion.engine.state import AgentState
from gpunion.engine.timers import Timers


class AgentEngine:
    """`handle` only thinks; `apply` follows once the decision is on disk."""

    def __init__(self, *, state: AgentState, facts: NodeFacts, timing: Timing, timers: Timers) -> None:
        self.state = state
        self.facts = facts
        self.timing = timing
        self.timers = timers

    def handle(self, now_s: float, event: AgentEvent) -> AgentDecision:
        draft = AgentDraft(self.state, self.facts, self.timing, self.timers, now_s)
        _dispatch(draft, event)
        ownership.settle(draft)
        return draft.decision()

    def apply(self, decision: AgentDecision) -> None:
        self.state.apply(decision.changes, decision.forgotten)


def _dispatch(draft: AgentDraft, event: AgentEvent) -> None:
    match event:
        case TimerFired(key=key):
            _timer(draft, key)
        case OrderReceived(order=order):
            orders.received(draft, order)
        case GuestStarted():
            guests.started(draft, event)
        case GuestStartFailed():
            guests.start_failed(draft, event)
        case GuestSaved():
            saves.saved(draft, event)
        case GuestExited():
            guests.exited(draft, event)
        case CheckpointShipped():
            saves.shipped(draft, event)
        case CheckpointNotShipped():
            saves.not_shipped(draft, event)
        case OutputShipped():
            guests.output_shipped(draft, event)
        case OwnerReclaimed():
            ownership.reclaim(draft, event)
        case OwnerPaused():
            ownership.pause(draft)
        case OwnerResumed():
            ownership.resume(draft)
        case OwnerKilled():
            ownership.kill(draft)
        case LeaseRenewed():
            lease.renewed(draft, event)
        case AgentStarted():
            restart.started(draft, event)
        case _:
            assert_never(event)


def _timer(draft: AgentDraft, key: str) -> None:
    name, _, subject = key.partition(":")
    match name:
        case "deadline":
            ownership.deadline_came(draft)
        case "term":
            ownership.last_seconds(draft)
        case "own_save":
            ownership.save_unasked(draft)
        case "lease":
            lease.ran_out(draft)
        case "lease_end":
            lease.grace_over(draft)
        case "save":
            saves.not_answered(draft, subject)
        case "kill":
            guests.would_not_go(draft, subject)
        case _:
            raise ValueError(f"no timer is called {key!r}")
