"""An agent that starts again: guests it finds are adopted, dead ones buried, strangers ended."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.jobs.guest import Guest, GuestPhase, OwnerState
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.effects import AskToSave, KillGuest, ShipOutput
from gpunion.domain.protocol.events import AgentStarted, GuestExited, GuestFound, GuestStartFailed
from gpunion.domain.protocol.reports import RunStarted
from gpunion.domain.protocol.timers import LeaseOver
from gpunion.domain.reasons.reason import Why
from gpunion.engine.agent import gpu_reclaim as gpu_ownership
from gpunion.engine.agent import guest_stays as stays
from gpunion.engine.agent import guests, saves, windows
from gpunion.engine.agent import owner_commands as ownership
from gpunion.engine.agent.draft import AgentDraft
from gpunion.engine.agent.parked import parking


def started(draft: AgentDraft, event: AgentStarted) -> None:
    # The owner first: what they took back meanwhile is not taken up again, not even to send the rest of it.
    if event.killed_meanwhile and not draft.holding.killed:
        ownership.kill(draft)
    elif draft.owner_has_it() or (event.rebooted and draft.holding.owner_state is OwnerState.RECLAIMING):
        # The clock counts from the boot, so nobody can tell how much of a notice is left: the owner wins.
        ownership.deadline_came(draft)
    gpu_ownership.restarted(draft, rebooted=event.rebooted)
    stays.restarted(draft, rebooted=event.rebooted)
    found = {guest.run_id: guest for guest in event.found}
    for guest in sorted(draft.guests.values(), key=lambda g: g.run_id):
        _take_up(draft, guest, found.get(guest.run_id))
    for stranger in event.found:
        if stranger.alive and stranger.run_id not in draft.guests:
            draft.because(stranger.run_id, Why.STRANGER_ENDED, run=stranger.run_id)
            draft.do(KillGuest(run_id=stranger.run_id, cause=EndReason.STOPPED))
    if draft.living():
        # Nobody knows when the lease was last renewed; the keepers do, and end their guests in time.
        draft.set_timer(LeaseOver(), draft.now_s + draft.timing.lease_s + draft.facts.terms.autonomy_s)


def _take_up(draft: AgentDraft, guest: Guest, found: GuestFound | None) -> None:
    if guest.phase is GuestPhase.SHIPPING:
        _ship_again(draft, guest)
    elif found is not None and found.alive:
        _adopt(draft, guest, found)
    elif found is not None and (guest.phase is not GuestPhase.STARTING or found.exit_code is not None):
        guests.exited(
            draft,
            GuestExited(
                run_id=guest.run_id,
                exit_code=None if _may_be_our_fault(guest, found) else found.exit_code,
                last_step=found.last_step,
                last_progress=found.last_progress,
                cause=found.cause,
                seen=found.seen,
                used=found.used,
            ),
        )
        _go_on_shipping(draft, guest)
    elif guest.phase is GuestPhase.STARTING:
        failed = GuestStartFailed(run_id=guest.run_id, detail="the agent was restarted while it started")
        guests.start_failed(draft, failed)
    else:
        gone = GuestExited(run_id=guest.run_id, exit_code=None, last_step=guest.last_step)
        guests.exited(draft, gone)
        _go_on_shipping(draft, guest)


def _may_be_our_fault(guest: Guest, found: GuestFound) -> bool:
    """A program that failed with what it was given, before it had done a step, while its agent was gone too:
    what ended the agent may have ended both. Its save would be blamed for that, so it counts as lost and
    goes on from the same save once more; there its failure speaks for itself."""
    failed = found.exit_code not in (None, 0, guests.EXIT_SAVED)
    nothing_done = max(guest.last_step, found.last_step) <= guest.restore_step
    return failed and guest.restore is not None and nothing_done


def _go_on_shipping(draft: AgentDraft, before: Guest) -> None:
    """It died while no agent was there. What it had saved by then is still to be sent, by nobody but us."""
    guest = draft.guests.get(before.run_id)
    if guest is None or guest.saving is None or before.saving is None or not before.saving.saved:
        return
    if guest.saving.checkpoint_id == before.saving.checkpoint_id:
        saves.ship(draft, guest)


def _adopt(draft: AgentDraft, guest: Guest, found: GuestFound) -> None:
    draft.because(guest.job_id, Why.ADOPTED, run=guest.run_id)
    if guest.phase is GuestPhase.STARTING:
        # A program that was restored a moment ago has not said yet how far it is.
        step = max(found.last_step, guest.restore_step)
        guest = draft.put(replace(guest, phase=GuestPhase.RUNNING, last_step=step))
        draft.report(
            RunStarted(
                run_id=guest.run_id,
                job_id=guest.job_id,
                epoch=guest.epoch,
                restored=guest.restore,
                resumed_step=step,
                restore_s=0.0,
            )
        )
    if guest.saving is not None and not (guest.parked and not guest.saving.saved):
        if guest.saving.saved:
            saves.ship(draft, guest)
        else:
            saving = guest.saving
            draft.do(
                AskToSave(
                    run_id=guest.run_id,
                    checkpoint_id=saving.checkpoint_id,
                    final=saving.final,
                    by_s=draft.deadline_for(guest),
                    at_step=saving.at_step,
                    whole=saving.final and guest.whole and guest.session,
                    dump=saving.dump,
                )
            )
    if guest.phase is GuestPhase.RUNNING:
        windows.begin(draft, guest)
    if guest.phase is GuestPhase.ENDING:
        draft.do(KillGuest(run_id=guest.run_id, cause=guest.end_cause or EndReason.STOPPED))
    parking.taken_up(draft, guest)


def _ship_again(draft: AgentDraft, guest: Guest) -> None:
    if guest.saving is not None:
        saves.ship(draft, guest)
    else:
        draft.do(ShipOutput(run_id=guest.run_id, keep=guest.keep))
