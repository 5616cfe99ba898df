"""The agent's brain: the owner's word first, then the coordinator's. Its timers need nobody."""

from __future__ import annotations

from typing import assert_never

from gpunion.domain.decision import AgentDecision
from gpunion.domain.events import (
    AgentEvent,
    AgentStarted,
    CheckpointNotShipped,
    CheckpointShipped,
    DepartureForeseen,
    GuestCouldNotSave,
    GuestExited,
    GuestNotDumped,
    GuestNotParked,
    GuestNotUnparked,
    GuestOverstepped,
    GuestParked,
    GuestSaved,
    GuestStarted,
    GuestStartFailed,
    GuestUnparked,
    KeptOutputSent,
    LeaseRenewed,
    OrderReceived,
    OutputShipped,
    OwnerChangedTerms,
    OwnerKilled,
    OwnerPaused,
    OwnerReclaimed,
    OwnerResumed,
    SignsSeen,
    StateFetched,
    TimerFired,
)
from gpunion.domain.guest import Tenure
from gpunion.domain.node import NodeFacts
from gpunion.domain.reports import SignsShown
from gpunion.domain.timing import Timing
from gpunion.engine.agent_draft import AgentDraft
from gpunion.engine.handlers import (
    gpu_ownership,
    guests,
    lease,
    orders,
    ownership,
    parking,
    restart,
    saves,
    stays,
)
from gpunion.engine.state import AgentState
from gpunion.engine.timers import Timers

_SHARING = Tenure.SHARING


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
        if draft.holding.tenure is not _SHARING or draft.holding.gpus:  # else its owner waits for nothing
            ownership.settle(draft)
            gpu_ownership.settle(draft)
        return draft.decision()

    def apply(self, decision: AgentDecision) -> None:
        self.state.apply(decision.changes, decision.forgotten)


def _dispatch(draft: AgentDraft, event: AgentEvent) -> None:
    match event:  # cases are tried in turn: the commonest first
        case OrderReceived(order=order):
            orders.received(draft, order)
        case GuestSaved():
            saves.saved(draft, event)
        case CheckpointShipped():
            saves.shipped(draft, event)
        case LeaseRenewed():
            lease.renewed(draft, event)
        case TimerFired(key=key):
            _timer(draft, key)
        case GuestStarted():
            guests.started(draft, event)
        case GuestStartFailed():
            guests.start_failed(draft, event)
        case GuestCouldNotSave():
            saves.could_not(draft, event)
        case GuestNotDumped():
            parking.not_dumped(draft, event)
        case GuestParked() | GuestNotParked() | GuestUnparked() | GuestNotUnparked():
            _parking(draft, event)
        case GuestExited():
            guests.exited(draft, event)
        case CheckpointNotShipped():
            saves.not_shipped(draft, event)
        case OutputShipped():
            guests.output_shipped(draft, event)
        case KeptOutputSent():
            guests.kept_output_sent(draft, event)
        case StateFetched():
            orders.state_fetched(draft, event)
        case OwnerReclaimed() | OwnerPaused() | OwnerResumed() | OwnerKilled():
            _owner_spoke(draft, event)
        case OwnerChangedTerms():
            stays.terms_changed(draft, event)
        case DepartureForeseen():
            stays.foreseen(draft, event)
        case SignsSeen(signs=signs):
            draft.report(SignsShown(signs=signs))
        case GuestOverstepped():
            stays.overstepped(draft, event)
        case AgentStarted():
            restart.started(draft, event)
        case _:
            assert_never(event)


def _owner_spoke(draft: AgentDraft, event: OwnerReclaimed | OwnerPaused | OwnerResumed | OwnerKilled) -> None:
    match event:
        case OwnerReclaimed(gpus=()):
            ownership.reclaim(draft, event)
        case OwnerReclaimed():
            gpu_ownership.reclaim(draft, event)
        case OwnerPaused(gpus=()):
            ownership.pause(draft)
        case OwnerPaused():
            gpu_ownership.pause(draft, event)
        case OwnerResumed(gpus=()):
            ownership.resume(draft, event)
        case OwnerResumed():
            gpu_ownership.resume(draft, event)
        case OwnerKilled():
            ownership.kill(draft)


def _parking(
    draft: AgentDraft, event: GuestParked | GuestNotParked | GuestUnparked | GuestNotUnparked
) -> None:
    match event:
        case GuestParked():
            parking.parked(draft, event)
        case GuestNotParked():
            parking.not_parked(draft, event)
        case GuestUnparked():
            parking.unparked(draft, event)
        case GuestNotUnparked():
            parking.not_unparked(draft, event)


def _timer(draft: AgentDraft, key: str) -> None:
    name, _, subject = key.partition(":")
    if subject.startswith("gpu:"):
        _gpu_timer(draft, name, gpu_ownership.index_of(subject))
        return
    if subject.startswith("guest:"):
        stays.timer_fired(draft, name, subject)
        return
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
        case "ship":
            saves.ship_again(draft, subject)
        case "save":
            saves.takes_long(draft, subject)
        case "park":
            parking.too_long(draft, subject)
        case "kill":
            guests.would_not_go(draft, subject)
        case _:
            raise ValueError(f"no timer is called {key!r}")


def _gpu_timer(draft: AgentDraft, name: str, index: int) -> None:
    match name:
        case "deadline":
            gpu_ownership.deadline_came(draft, index)
        case "term":
            gpu_ownership.last_seconds(draft, index)
        case "own_save":
            gpu_ownership.save_unasked(draft, index)
        case _:
            raise ValueError(f"no timer of a GPU is called {name!r}")
