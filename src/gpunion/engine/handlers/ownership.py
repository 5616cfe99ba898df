"""The owner's word: reclaim, pause, resume, kill, leave. Decided here, on the machine, with nobody asked."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.effects import TerminateGuest
from gpunion.domain.events import OwnerReclaimed, OwnerResumed
from gpunion.domain.guest import GuestPhase, Holding, Tenure
from gpunion.domain.reasons import Why
from gpunion.domain.reports import NodeLeft, NodePaused, NodeReclaimed, NodeResumed, NoticeGiven
from gpunion.domain.run import EndReason
from gpunion.domain.terms import TERM_BEFORE_DEADLINE_S
from gpunion.domain.withheld import HoldCause, after_resume, weightier
from gpunion.engine.agent_draft import AgentDraft
from gpunion.engine.handlers import gpu_ownership, guests, parked_moves, parking, saves

# An owner who waits for a safe moment gives the coordinator's plan this long, then every guest is saved again
# until it is durable.
WHEN_SAFE_PATIENCE_S = 10.0

_TIMERS = ("deadline", "term", "own_save")


def reclaim(draft: AgentDraft, event: OwnerReclaimed) -> None:
    holding = draft.holding
    if holding.tenure is Tenure.LEFT:
        return
    if holding.tenure is Tenure.RECLAIMED:
        if event.leaving:
            _free(draft, replace(holding, leaving=True, asked_s=draft.now_s))
        elif event.cause is not holding.cause:
            # From now on it ends by the weightier word.
            draft.hold(replace(holding, cause=weightier(holding.cause, event.cause), detail=""))
        return
    deadline_s = draft.now_s + max(0.0, event.notice_s)
    asked_s, leaving = draft.now_s, event.leaving
    cause, detail, when_safe = event.cause, event.detail, event.when_safe
    if holding.tenure is not Tenure.SHARING:
        cause = weightier(holding.cause, event.cause)
        detail = detail if cause is event.cause else holding.detail
    if holding.tenure is Tenure.RECLAIMING and holding.deadline_s is not None:
        # A second word may shorten a notice, never lengthen it behind the first one's back.
        deadline_s = min(deadline_s, holding.deadline_s)
        asked_s, leaving = holding.asked_s, leaving or holding.leaving
        when_safe = when_safe or holding.when_safe
    draft.hold(
        Holding(
            tenure=Tenure.RECLAIMING,
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
    if draft.holding.tenure is Tenure.SHARING:
        draft.hold(Holding(tenure=Tenure.PAUSED, asked_s=draft.now_s, gpus=draft.holding.gpus))
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
    if holding.tenure is Tenure.LEFT or (holding.tenure is Tenure.SHARING and staying == holding.gpus):
        return
    for key in _TIMERS:
        draft.cancel_timer(key)
    gpu_ownership.cancel_timers(draft, {gpu.index for gpu in holding.gpus if gpu not in staying})
    draft.hold(Holding(tenure=Tenure.SHARING, asked_s=draft.now_s, gpus=staying))
    for guest in draft.living():
        draft.do(draft.notice_for(guest))
        draft.limit(guest.run_id)
    parking.wake(draft)
    draft.report(NodeResumed())


def kill(draft: AgentDraft) -> None:
    for key in _TIMERS:
        draft.cancel_timer(key)
    for guest in sorted(draft.guests.values(), key=lambda g: g.run_id):
        guests.end_now(draft, guest, EndReason.KILLED_BY_OWNER)
    holding = Holding(tenure=Tenure.RECLAIMED, asked_s=draft.now_s, killed=True, gpus=draft.holding.gpus)
    if draft.holding.leaving:
        # The goodbye comes last (see `settle`): nobody listens to a node that has left.
        leaving = replace(holding, tenure=Tenure.RECLAIMING, deadline_s=draft.now_s, leaving=True)
        draft.hold(leaving)
        return
    draft.hold(holding)
    draft.report(NodeReclaimed(freed_after_s=0.0, killed=True))


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
    if draft.holding.tenure is not Tenure.RECLAIMING or deadline_s is None:
        return
    when_safe = draft.holding.when_safe
    again_s = draft.now_s + draft.timing.own_save_patience_s
    waits = draft.may_wait_for_a_plan(deadline_s)
    if (waits or when_safe) and again_s < deadline_s:
        draft.set_timer("own_save", again_s)
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
    if draft.holding.tenure is Tenure.RECLAIMING and not draft.guests:
        for key in _TIMERS:
            draft.cancel_timer(key)
        _free(draft, draft.holding)


def _free(draft: AgentDraft, holding: Holding) -> None:
    tenure = Tenure.LEFT if holding.leaving else Tenure.RECLAIMED
    draft.hold(replace(holding, tenure=tenure, deadline_s=None))
    freed_after_s = max(0.0, draft.now_s - holding.asked_s)
    draft.because("machine", Why.MACHINE_FREE, freed_after_s=freed_after_s)
    draft.report(NodeLeft() if holding.leaving else NodeReclaimed(freed_after_s=freed_after_s))


def _set_notice_timers(draft: AgentDraft, deadline_s: float) -> None:
    draft.set_timer("deadline", deadline_s)
    term_s = deadline_s - TERM_BEFORE_DEADLINE_S
    if term_s > draft.now_s:
        draft.set_timer("term", term_s)
    notice_s = deadline_s - draft.now_s
    draft.set_timer("own_save", draft.now_s + min(draft.timing.own_save_patience_s, notice_s / 4))
