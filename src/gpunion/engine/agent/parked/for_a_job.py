"""A guest makes room for a job of a higher class: it is parked, and stands still until it is told to go on.

The owner allows it with the same word as for themselves, and within the same memory. Who has its GPUs
meanwhile is the coordinator's business; that nobody gets them before it is off them is ours.
"""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.jobs.guest import Guest, GuestPhase, OwnerState
from gpunion.domain.protocol.orders import ParkRun, UnparkRun
from gpunion.domain.protocol.reports import RunNotParked
from gpunion.domain.protocol.timers import ParkedTooLong
from gpunion.engine.agent.draft import AgentDraft
from gpunion.engine.agent.parked import parking

# Somebody waits, and may be better served by another guest. Tens of gigabytes take some seconds.
LIMIT_S = 60.0
# Its hands keep to that limit by themselves; who has not been heard of by then hangs.
HANGS_S = 5.0


def park(draft: AgentDraft, order: ParkRun) -> None:
    guest = draft.guests.get(order.run_id)
    why_not = "it does not run there" if guest is None else _why_not(draft, guest)
    if guest is None or why_not:
        draft.report(
            RunNotParked(run_id=order.run_id, job_id=order.job_id, epoch=order.epoch, detail=why_not)
        )
        return
    by_s = draft.now_s + LIMIT_S
    guest = draft.put(replace(guest, room_for=order.room_for, park_by_s=by_s))
    parking.park(draft, guest, by_s=by_s)
    draft.set_timer(ParkedTooLong(run_id=guest.run_id), by_s + HANGS_S)


def go_back(draft: AgentDraft, order: UnparkRun) -> None:
    """At once where it can. Its owner may have taken a GPU of it meanwhile: then it waits for them, as if it
    had been parked for them."""
    guest = draft.guests.get(order.run_id)
    if guest is None or guest.room_for is None:
        return
    draft.put(replace(guest, room_for=None))
    parking.wake(draft)
    if draft.guests[order.run_id].parked:
        draft.set_timer(ParkedTooLong(run_id=order.run_id), draft.now_s + parking.PATIENCE_S)


def _why_not(draft: AgentDraft, guest: Guest) -> str:
    final_asked = guest.saving is not None and guest.saving.final
    if guest.phase is not GuestPhase.RUNNING:
        return "it does not run there"
    if guest.in_gang:
        return "the others of its gang would stand still for it on their GPUs"
    if not draft.facts.parks:
        return "the driver there cannot move what a guest has on a GPU"
    if not draft.facts.terms.park:
        return "the owner of its machine gives no memory for it"
    if guest.parking is not None:
        return "it is parked for its owner"
    if guest.final_saved or final_asked or guest.leave_by_s is not None:
        return "it leaves already"
    if draft.holding.owner_state is not OwnerState.SHARING:
        return "its machine is not lent"
    if any(draft.withheld(index) is not None for index in guest.grant.gpu_indices):
        return "its owner has a GPU of it"
    return ""
