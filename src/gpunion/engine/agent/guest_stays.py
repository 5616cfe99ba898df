"""How long a guest may stay by the owner's terms. Decided on the machine, for each guest by itself.

Like a single GPU that is taken back, it leaves the rest of the machine lent: what was saved in time may still
be sent afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from gpunion.domain.ids import RunId
from gpunion.domain.jobs.guest import Guest, GuestPhase
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.terms import TERM_BEFORE_DEADLINE_S
from gpunion.domain.protocol.effects import TerminateGuest
from gpunion.domain.protocol.events import DepartureForeseen, GuestOverstepped, OwnerChangedTerms
from gpunion.domain.protocol.reports import DepartureForetold, GuestAskedToGo, TermsChanged
from gpunion.domain.protocol.timers import (
    Deadline,
    LastSeconds,
    LeaseGraceOver,
    LeaseOver,
    NoticeTimer,
    OneGuest,
    OwnSave,
)
from gpunion.domain.reasons.reason import Why
from gpunion.engine.agent import guests, saves
from gpunion.engine.agent.draft import AgentDraft
from gpunion.engine.agent.parked import moves as parked_moves
from gpunion.policy.terms.welcome import unwelcome


def terms_changed(draft: AgentDraft, event: OwnerChangedTerms) -> None:
    draft.report(TermsChanged(terms=draft.facts.terms, said=event.said))
    draft.because("machine", Why.TERMS_CHANGED, node="this machine", said=event.said)
    for guest in draft.living():
        draft.limit(guest.run_id)  # how long they may stay alone may have changed
    if draft.living() and draft.lease_until_s is not None and not draft.timer_set(LeaseGraceOver()):
        draft.set_timer(LeaseOver(), draft.lease_until_s + draft.facts.terms.autonomy_s)
    look_again(draft)


def foreseen(draft: AgentDraft, event: DepartureForeseen) -> None:
    draft.report(DepartureForetold(at_s=event.at_s, because=event.because))


def overstepped(draft: AgentDraft, event: GuestOverstepped) -> None:
    guest = draft.guests.get(event.run_id)
    if guest is not None and guest.living and guest.leave_by_s is None:
        _ask_to_go(draft, replace(guest, overstepped=True), event.detail)


def look_again(draft: AgentDraft) -> None:
    """Who may not stay is asked to go; who was asked and may stay after all is told so."""
    going = unwelcome(draft.facts.terms, [g for g in draft.living() if not g.overstepped])
    for guest in draft.living():
        why = going.get(guest.run_id)
        if why is not None and guest.leave_by_s is None:
            _ask_to_go(draft, guest, why)
        elif why is None and guest.leave_by_s is not None and not guest.overstepped:
            _let_stay(draft, guest)


def restarted(draft: AgentDraft, *, rebooted: bool) -> None:
    """Before anybody is taken up again, and with the terms as they are now."""
    for guest in draft.living():
        if guest.leave_by_s is not None and (rebooted or draft.now_s >= guest.leave_by_s):
            deadline_came(draft, guest.run_id)
    look_again(draft)


def timer_fired(draft: AgentDraft, timer: NoticeTimer, run_id: RunId) -> None:
    match timer:
        case Deadline():
            deadline_came(draft, run_id)
        case LastSeconds():
            _last_seconds(draft, run_id)
        case OwnSave():
            _save_unasked(draft, run_id)
        case _:
            assert_never(timer)


def deadline_came(draft: AgentDraft, run_id: RunId) -> None:
    guest = _asked(draft, run_id)
    if guest is not None:
        guests.leave_gpu(draft, guest, EndReason.DEADLINE)


def _ask_to_go(draft: AgentDraft, guest: Guest, why: str) -> None:
    deadline_s = draft.now_s + draft.facts.terms.notice_s
    guest = draft.put(replace(guest, leave_by_s=deadline_s, leave_why=why))
    _report(draft, guest)
    draft.because(
        guest.job_id, Why.TERMS_END_STAY, node="this machine", detail=why, notice_s=deadline_s - draft.now_s
    )
    if deadline_s <= draft.now_s:
        deadline_came(draft, guest.run_id)
        return
    draft.do(draft.notice_for(guest))
    draft.limit(guest.run_id)
    noticed = OneGuest(run_id=guest.run_id)
    draft.set_timer(Deadline(of=noticed), deadline_s)
    term_s = deadline_s - TERM_BEFORE_DEADLINE_S
    if term_s > draft.now_s:
        draft.set_timer(LastSeconds(of=noticed), term_s)
    patience_s = min(draft.timing.own_save_patience_s, (deadline_s - draft.now_s) / 4)
    draft.set_timer(OwnSave(of=noticed), draft.now_s + patience_s)
    parked_moves.begin(draft, guest, by_s=deadline_s)


def _let_stay(draft: AgentDraft, guest: Guest) -> None:
    if guest.phase is GuestPhase.ENDING:
        return  # it is on its way out
    guest = draft.put(replace(guest, leave_by_s=None, leave_why=""))
    draft.cancel_stay_timers(guest.run_id)
    draft.do(draft.notice_for(guest))
    draft.limit(guest.run_id)
    _report(draft, guest)


def _last_seconds(draft: AgentDraft, run_id: RunId) -> None:
    guest = _asked(draft, run_id)
    if guest is not None and not guest.parked:  # one that is parked hears nothing
        draft.put(replace(guest, end_cause=guest.end_cause or EndReason.DEADLINE))
        draft.do(TerminateGuest(run_id=guest.run_id))


def _save_unasked(draft: AgentDraft, run_id: RunId) -> None:
    """As for a whole machine: the coordinator's plan counts while it is near."""
    guest = _asked(draft, run_id)
    if guest is None or guest.leave_by_s is None:
        return
    if draft.may_wait_for_a_plan(guest.leave_by_s):
        again_s = draft.now_s + draft.timing.own_save_patience_s
        if again_s < guest.leave_by_s:
            draft.set_timer(OwnSave(of=OneGuest(run_id=run_id)), again_s)
        return
    final_asked = guest.saving is not None and guest.saving.final
    if guest.phase is GuestPhase.RUNNING and guest.parking is None and not final_asked:
        saves.ask_by_ourselves(draft, guest, by_s=guest.leave_by_s, saved_for=EndReason.DEADLINE)


def _asked(draft: AgentDraft, run_id: RunId) -> Guest | None:
    guest = draft.guests.get(run_id)
    return guest if guest is not None and guest.living and guest.leave_by_s is not None else None


def _report(draft: AgentDraft, guest: Guest) -> None:
    draft.report(
        GuestAskedToGo(
            run_id=guest.run_id,
            job_id=guest.job_id,
            epoch=guest.epoch,
            deadline_s=guest.leave_by_s,
            detail=guest.leave_why,
        )
    )
