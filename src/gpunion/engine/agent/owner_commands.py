"""The owner's word: reclaim, pause, resume, kill, leave. Decided here, on the machine, with nobody asked."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from gpunion.domain.jobs.guest import GuestPhase, Holding, OwnerState
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.terms import TERM_BEFORE_DEADLINE_S
from gpunion.domain.nodes.withheld import HoldCause, after_resume, weightier
from gpunion.domain.protocol.effects import TerminateGuest
from gpunion.domain.protocol.events import OwnerReclaimed, OwnerResumed
from gpunion.domain.protocol.reports import NodeLeft, NodePaused, NodeReclaimed, NodeResumed, NoticeGiven
from gpunion.domain.protocol.timers import (
    Deadline,
    LastSeconds,
    NoticeTimer,
    OwnSave,
    WholeMachine,
    of_notice,
)
from gpunion.domain.reasons.reason import Why
from gpunion.engine.agent import gpu_reclaim as gpu_ownership
from gpunion.engine.agent import guests, saves
from gpunion.engine.agent.draft import AgentDraft
from gpunion.engine.agent.parked import moves as parked_moves
from gpunion.engine.agent.parked import parking

# An owner who waits for a safe moment gives the coordinator's plan this long, then every guest is saved again
# until it is durable.
WHEN_SAFE_PATIENCE_S = 10.0

_NOTICED = WholeMachine()


def reclaim(draft: AgentDraft, event: OwnerReclaimed) -> None:
    holding = draft.holding
    if holding.owner_state is OwnerState.LEFT:
        return
    if holding.owner_state is OwnerState.RECLAIMED:
        if event.leaving:
            _free(draft, replace(holding, leaving=True, asked_s=draft.now_s))
        elif event.cause is not holding.cause:
            # From now on it ends by the weightier word.
            draft.hold(replace(holding, cause=weightier(holding.cause, event.cause), detail=""))
        return
    deadline_s = draft.now_s + max(0.0, event.notice_s)
    asked_s, leaving = draft.now_s, event.leaving
    cause, detail, when_safe = event.cause, event.detail, event.when_safe
    if holding.owner_state is not OwnerState.SHARING:
        cause = weightier(holding.cause, event.cause)
        detail = detail if cause is event.cause else holding.detail
    if holding.owner_state is OwnerState.RECLAIMING and holding.deadline_s is not None:
        # A second word may shorten a notice, never lengthen it behind the first one's back.
        deadline_s = min(deadline_s, holding.deadline_s)
        asked_s, leaving = holding.asked_s, leaving or holding.leaving
        when_safe = when_safe or holding.when_safe
    draft.hold(
        Holding(
            owner_state=OwnerState.RECLAIMING,
            asked_s=asked_s,
            deadline_s=deadline_s,
            leaving=leaving,
            cause=cause,
            detail=detail,
            when_safe=when_safe,
            gpus=holding.gpus,
        )
    )
    draft.report(
        NoticeGiven(deadline_s=deadline_s, leaving=leaving, when_safe=when_safe, cause=cause, detail=detail)
    )
    if deadline_s <= draft.now_s:
        deadline_came(draft)
        return
    _set_notice_timers(draft, deadline_s)
    for guest in draft.living():
        draft.do(draft.notice_for(guest))
        draft.limit(guest.run_id)
        parked_moves.begin(draft, guest, by_s=deadline_s)


def pause(draft: AgentDraft) -> None:
    if draft.holding.owner_state is OwnerState.SHARING:
        draft.hold(Holding(owner_state=OwnerState.PAUSED, asked_s=draft.now_s, gpus=draft.holding.gpus))
        draft.report(NodePaused())
    elif draft.holding.cause is HoldCause.TERMS:
        # Taken back by their terms; from now on it ends by their word, not by itself.
        draft.hold(replace(draft.holding, cause=HoldCause.OWNER))


def resume(draft: AgentDraft, event: OwnerResumed) -> None:
    holding = draft.holding
    by_terms = event.cause is HoldCause.TERMS
    if by_terms and (holding.cause is not HoldCause.TERMS or holding.leaving):
        return
    staying = holding.gpus if by_terms else after_resume(holding.gpus)
    if holding.owner_state is OwnerState.LEFT or (
        holding.owner_state is OwnerState.SHARING and staying == holding.gpus
    ):
        return
    for timer in of_notice(_NOTICED):
        draft.cancel_timer(timer)
    gpu_ownership.cancel_timers(draft, {gpu.index for gpu in holding.gpus if gpu not in staying})
    draft.hold(Holding(owner_state=OwnerState.SHARING, asked_s=draft.now_s, gpus=staying))
    for guest in draft.living():
        draft.do(draft.notice_for(guest))
        draft.limit(guest.run_id)
    parking.wake(draft)
    draft.report(NodeResumed())


def kill(draft: AgentDraft) -> None:
    for timer in of_notice(_NOTICED):
        draft.cancel_timer(timer)
    for guest in sorted(draft.guests.values(), key=lambda g: g.run_id):
        guests.end_now(draft, guest, EndReason.KILLED_BY_OWNER)
    holding = Holding(
        owner_state=OwnerState.RECLAIMED, asked_s=draft.now_s, killed=True, gpus=draft.holding.gpus
    )
    if draft.holding.leaving:
        # The goodbye comes last (see `settle`): nobody listens to a node that has left.
        leaving = replace(holding, owner_state=OwnerState.RECLAIMING, deadline_s=draft.now_s, leaving=True)
        draft.hold(leaving)
        return
    draft.hold(holding)
    draft.report(NodeReclaimed(freed_after_s=0.0, killed=True))


def timer_fired(draft: AgentDraft, timer: NoticeTimer) -> None:
    match timer:
        case Deadline():
            deadline_came(draft)
        case LastSeconds():
            last_seconds(draft)
        case OwnSave():
            save_unasked(draft)
        case _:
            assert_never(timer)


def last_seconds(draft: AgentDraft) -> None:
    for guest in draft.living():
        if guest.parked:
            continue  # it hears nothing, and what it would hear when it goes on is not meant any more
        # Should it go now, it is because it was told to: that is no failure of its own.
        draft.put(replace(guest, end_cause=guest.end_cause or EndReason.DEADLINE))
        draft.do(TerminateGuest(run_id=guest.run_id))


def save_unasked(draft: AgentDraft) -> None:
    """The coordinator has a plan or is away. While it is near its plan counts; else we save what we can."""
    deadline_s = draft.holding.deadline_s
    if draft.holding.owner_state is not OwnerState.RECLAIMING or deadline_s is None:
        return
    when_safe = draft.holding.when_safe
    again_s = draft.now_s + draft.timing.own_save_patience_s
    waits = draft.may_wait_for_a_plan(deadline_s)
    if (waits or when_safe) and again_s < deadline_s:
        draft.set_timer(OwnSave(of=_NOTICED), again_s)
    waited_s = draft.now_s - draft.holding.asked_s
    if waits and not (when_safe and waited_s >= WHEN_SAFE_PATIENCE_S):
        return
    for guest in draft.living():
        final_asked = guest.saving is not None and guest.saving.final
        if guest.phase is GuestPhase.RUNNING and guest.parking is None and not final_asked:
            saves.ask_by_ourselves(draft, guest, by_s=deadline_s, saved_for=EndReason.DEADLINE)


def deadline_came(draft: AgentDraft) -> None:
    for guest in sorted(draft.guests.values(), key=lambda g: g.run_id):
        guests.end_now(draft, guest, EndReason.DEADLINE)


def settle(draft: AgentDraft) -> None:
    """The machine is the owner's as soon as nothing of a guest is left, not only at the deadline."""
    if draft.holding.owner_state is OwnerState.RECLAIMING and not draft.guests:
        for timer in of_notice(_NOTICED):
            draft.cancel_timer(timer)
        _free(draft, draft.holding)


def _free(draft: AgentDraft, holding: Holding) -> None:
    owner_state = OwnerState.LEFT if holding.leaving else OwnerState.RECLAIMED
    draft.hold(replace(holding, owner_state=owner_state, deadline_s=None))
    freed_after_s = max(0.0, draft.now_s - holding.asked_s)
    draft.because("machine", Why.MACHINE_FREE, freed_after_s=freed_after_s)
    draft.report(NodeLeft() if holding.leaving else NodeReclaimed(freed_after_s=freed_after_s))


def _set_notice_timers(draft: AgentDraft, deadline_s: float) -> None:
    draft.set_timer(Deadline(of=_NOTICED), deadline_s)
    term_s = deadline_s - TERM_BEFORE_DEADLINE_S
    if term_s > draft.now_s:
        draft.set_timer(LastSeconds(of=_NOTICED), term_s)
    notice_s = deadline_s - draft.now_s
    draft.set_timer(OwnSave(of=_NOTICED), draft.now_s + min(draft.timing.own_save_patience_s, notice_s / 4))
