"""The agent's brain: the owner's word first, then the coordinator's. Its timers need nobody."""

from __future__ import annotations

from typing import assert_never

from gpunion.domain.jobs.guest import OwnerState
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.protocol.decision import AgentDecision
from gpunion.domain.protocol.events import (
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
from gpunion.domain.protocol.reports import SignsShown
from gpunion.domain.protocol.timers import (
    AgentTimer,
    Deadline,
    KillDue,
    LastSeconds,
    LeaseGraceOver,
    LeaseOver,
    NoticeTimer,
    OneGpu,
    OneGuest,
    OwnSave,
    ParkedTooLong,
    SaveOverdue,
    ShipAgain,
    WholeMachine,
    WindowEnds,
)
from gpunion.domain.timing import Timing
from gpunion.engine.agent import gpu_reclaim as gpu_ownership
from gpunion.engine.agent import guest_stays as stays
from gpunion.engine.agent import guests, lease, orders, restart, saves, windows
from gpunion.engine.agent import owner_commands as ownership
from gpunion.engine.agent.draft import AgentDraft
from gpunion.engine.agent.parked import parking
from gpunion.engine.agent.state import AgentState
from gpunion.engine.timers import Timers

_SHARING = OwnerState.SHARING


class AgentEngine:
    """`handle` only thinks; `apply` follows once the decision is on disk."""

    def __init__(
        self, *, state: AgentState, facts: NodeFacts, timing: Timing, timers: Timers[AgentTimer]
    ) -> None:
        self.state = state
        self.facts = facts
        self.timing = timing
        self.timers = timers

    def handle(self, now_s: float, event: AgentEvent) -> AgentDecision:
        draft = AgentDraft(self.state, self.facts, self.timing, self.timers, now_s)
        _dispatch(draft, event)
        if (
            draft.holding.owner_state is not _SHARING or draft.holding.gpus
        ):  # else its owner waits for nothing
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
        case TimerFired(timer=timer):
            _timer(draft, timer)
        case GuestStarted():
            guests.started(draft, event)
        case GuestStartFailed():
            guests.start_failed(draft, event)
            parking.wake(draft)
        case GuestCouldNotSave():
            saves.could_not(draft, event)
        case GuestNotDumped():
            parking.not_dumped(draft, event)
        case GuestParked() | GuestNotParked() | GuestUnparked() | GuestNotUnparked():
            _parking(draft, event)
        case GuestExited():
            guests.exited(draft, event)
            parking.wake(draft)  # whom it kept off a GPU that is theirs again
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


def _timer(draft: AgentDraft, timer: AgentTimer) -> None:
    match timer:  # the commonest first
        case SaveOverdue(run_id=run_id):
            saves.takes_long(draft, run_id)
        case Deadline() | LastSeconds() | OwnSave():
            _notice_timer(draft, timer)
        case WindowEnds(run_id=run_id):
            windows.nearly_over(draft, draft.guests.get(run_id))
        case LeaseOver():
            lease.ran_out(draft)
        case LeaseGraceOver():
            lease.grace_over(draft)
        case ShipAgain(run_id=run_id):
            saves.ship_again(draft, run_id)
        case ParkedTooLong(run_id=run_id):
            parking.too_long(draft, run_id)
        case KillDue(run_id=run_id):
            guests.would_not_go(draft, run_id)
        case _:
            assert_never(timer)


def _notice_timer(draft: AgentDraft, timer: NoticeTimer) -> None:
    match timer.of:
        case WholeMachine():
            ownership.timer_fired(draft, timer)
        case OneGpu(index=index):
            gpu_ownership.timer_fired(draft, timer, index)
        case OneGuest(run_id=run_id):
            stays.timer_fired(draft, timer, run_id)
        case _:
            assert_never(timer.of)
