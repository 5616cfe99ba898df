"""A parked guest that has to give up its place is taken as it stands, to go on elsewhere from exactly there.

Its GPU memory is in host memory, so that a dump has all of it and touches no GPU: the owner has theirs
already. It is a last save like any other from then on. Where it fails the guest is parked as before, and
whoever asked for it decides what becomes of it.
"""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import own_checkpoint_id
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.guest import Guest, GuestPhase, Saving
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.effects import DumpParked
from gpunion.domain.protocol.orders import TakeCheckpoint
from gpunion.domain.protocol.timers import ParkedTooLong
from gpunion.domain.reasons.reason import Why
from gpunion.engine.agent import saves
from gpunion.engine.agent.draft import AgentDraft

# For a dump that nobody waits for.
ORDERED_LIMIT_S = 600.0


def under_way(guest: Guest) -> bool:
    return guest.parked and guest.saving is not None and guest.saving.final


def begin(draft: AgentDraft, guest: Guest, *, by_s: float) -> bool:
    """False: it cannot be dumped here, or no other machine could bring it back."""
    if not guest.parked or guest.phase is not GuestPhase.RUNNING or by_s <= draft.now_s:
        return False
    if not guest.whole or not draft.facts.system.able or draft.sickness_of(guest):
        return False  # nothing that was computed on a broken GPU may be what the job goes on from
    if guest.saving is not None:
        # A save is on its way that was made right before it was parked: it must not be lost for a dump that
        # may fail. Or it is the dump itself.
        return under_way(guest)
    number = guest.own_saves + 1
    own = own_checkpoint_id(guest.run_id, number)
    saving = Saving(checkpoint_id=own, final=True, rate_bps=0.0, saved_for=EndReason.DEADLINE)
    guest = draft.put(replace(guest, own_saves=number, saving=saving))
    limit_s = by_s - draft.now_s
    draft.because(guest.job_id, Why.PARKED_MOVES, node="this machine", limit_s=limit_s)
    take_up(draft, guest, by_s=by_s)
    return True


def begin_as_ordered(draft: AgentDraft, guest: Guest, order: TakeCheckpoint) -> bool:
    """Of one that gave its place to a job, and goes elsewhere. False: it cannot be dumped here."""
    able = order.final and order.whole and draft.facts.system.able and not draft.sickness_of(guest)
    if not able or not guest.gave_place or guest.saving is not None:
        return False
    saving = Saving(checkpoint_id=order.checkpoint_id, final=True, rate_bps=order.rate_bps)
    guest = draft.put(replace(guest, whole=True, saving=saving))
    take_up(draft, guest, by_s=ORDERED_LIMIT_S + draft.now_s if order.by_s is None else order.by_s)
    return True


def take_up(draft: AgentDraft, guest: Guest, *, by_s: float) -> None:
    """Asked for once more by an agent that was started again."""
    saving = guest.saving
    if saving is not None and not saving.saved:
        draft.do(DumpParked(run_id=guest.run_id, checkpoint_id=saving.checkpoint_id, by_s=by_s))
        draft.set_timer(ParkedTooLong(run_id=guest.run_id), by_s)


def give_up(draft: AgentDraft, guest: Guest, why: str) -> Guest:
    assert guest.saving is not None
    guest = replace(guest, saving=replace(guest.saving, tier_why=why))
    return saves.drop(draft, guest, CheckpointTrouble.PARKED)
