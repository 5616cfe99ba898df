"""The lease: how long guests may go on without the coordinator. Its end is ours to enforce, not its."""

from __future__ import annotations

from gpunion.domain.jobs.guest import GuestPhase, Lease
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.events import LeaseRenewed
from gpunion.domain.protocol.timers import LeaseGraceOver, LeaseOver
from gpunion.engine.agent import guests, saves
from gpunion.engine.agent.draft import AgentDraft


def renewed(draft: AgentDraft, event: LeaseRenewed) -> None:
    if draft.lease_until_s is not None and event.until_s <= draft.lease_until_s:
        return  # a late answer to an earlier heartbeat
    draft.lease_until_s = event.until_s
    draft.note(Lease, Lease(until_s=event.until_s))
    draft.cancel_timer(LeaseGraceOver())
    if draft.living():
        draft.set_timer(LeaseOver(), event.until_s + draft.facts.terms.autonomy_s)
    else:
        draft.cancel_timer(LeaseOver())
    for guest in draft.living():
        draft.limit(guest.run_id)


def ran_out(draft: AgentDraft) -> None:
    """One last save in the grace: the vault may be reachable though the coordinator is not."""
    end_s = draft.now_s + draft.timing.grace_s
    for guest in draft.living():
        final_asked = guest.saving is not None and guest.saving.final
        if guest.phase is GuestPhase.RUNNING and guest.parking is None and not final_asked:
            saves.ask_by_ourselves(draft, guest, by_s=end_s, saved_for=EndReason.LEASE_ENDED)
    draft.set_timer(LeaseGraceOver(), end_s)


def grace_over(draft: AgentDraft) -> None:
    for guest in draft.living():
        guests.end_now(draft, guest, EndReason.LEASE_ENDED)
