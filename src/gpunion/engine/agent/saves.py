"""Saving a guest: asked, written by the program, shipped, durable. One save of a guest at a time."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import CheckpointId, RunId, own_checkpoint_id
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.guest import Guest, GuestPhase, Saving
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.effects import AskToSave, CancelShipping, KillGuest, ShipCheckpoint
from gpunion.domain.protocol.events import (
    CheckpointNotShipped,
    CheckpointShipped,
    GuestCouldNotSave,
    GuestNotDumped,
    GuestSaved,
)
from gpunion.domain.protocol.reports import Capture, CheckpointCaptured, CheckpointDurable, CheckpointFailed
from gpunion.domain.protocol.timers import SaveOverdue, ShipAgain
from gpunion.domain.reasons.reason import Why
from gpunion.domain.reasons.wording import TROUBLE_IN_WORDS
from gpunion.domain.system_tier import Tier
from gpunion.engine.agent.draft import AgentDraft

# Between two tries to bring a last save to a vault that did not take it.
SHIP_AGAIN_S = 2.0
# For a dump of a parked guest, which nobody waits for; the coordinator gives it up by itself if it must.
PARKED_PATIENCE_S = 600.0
# How long it is kept and tried for while nobody is heard: that a coordinator is away for longer is rare.
OUT_OF_TOUCH_PATIENCE_S = 3600.0
_PASSING = frozenset(
    {
        CheckpointTrouble.VAULT_UNAVAILABLE,
        CheckpointTrouble.VAULT_FULL,
        CheckpointTrouble.DISK_FULL,
        CheckpointTrouble.DISK_FAILED,
    }
)


def ask(draft: AgentDraft, guest: Guest, saving: Saving, *, by_s: float | None) -> None:
    draft.put(replace(guest, saving=saving))
    draft.do(
        AskToSave(
            run_id=guest.run_id,
            checkpoint_id=saving.checkpoint_id,
            final=saving.final,
            by_s=by_s,
            at_step=saving.at_step,
            whole=saving.final and guest.whole and guest.session,
            dump=saving.dump,
        )
    )
    give_up_s = draft.now_s + draft.timing.save_timeout_s
    if by_s is not None:  # that of a gang's member counts the way to the step where all save
        give_up_s = by_s if saving.at_step else min(by_s, give_up_s)
    draft.set_timer(SaveOverdue(run_id=guest.run_id), give_up_s)


def ask_by_ourselves(
    draft: AgentDraft, guest: Guest, by_s: float, saved_for: EndReason, rate_bps: float = 0.0
) -> None:
    """A last save without an order: nobody could be asked in time."""
    if guest.saving is not None:
        guest = drop(draft, guest, CheckpointTrouble.SUPERSEDED)
    guest = draft.put(replace(guest, own_saves=guest.own_saves + 1))
    if saved_for is not EndReason.WINDOW:  # that was agreed upon when it began
        draft.because(guest.job_id, Why.OWN_SAVE, run=guest.run_id)
    own = own_checkpoint_id(guest.run_id, guest.own_saves)
    saving = Saving(checkpoint_id=own, final=True, rate_bps=rate_bps, saved_for=saved_for)
    ask(draft, guest, saving, by_s=by_s)


def saved(draft: AgentDraft, event: GuestSaved) -> None:
    guest = draft.guests.get(event.run_id)
    if guest is None or guest.saving is None or guest.saving.checkpoint_id != event.checkpoint_id:
        return
    if guest.saving.saved or not guest.living:
        return
    step = _step_of(guest, event)
    saving = replace(
        guest.saving,
        saved=True,
        step=step,
        progress=event.progress,
        tier=event.tier,
        saved_s=draft.now_s,
        stall_s=event.stall_s,
        capture_s=event.capture_s,
        size_bytes=event.size_bytes,
        counted=event.counted,
    )
    guest = draft.put(replace(guest, saving=saving, last_step=max(guest.last_step, step)))
    # A periodic one is reported once, when it is durable: nobody waits for it, and a third of all that a
    # coordinator has to write down would be words in between. Its timer tells of one that takes long.
    if saving.final or guest.in_gang or saving.tier_why:  # others wait for it, or have to know
        draft.cancel_timer(SaveOverdue(run_id=guest.run_id))
        guest = tell_captured(draft, guest)
    ship(draft, guest)
    if saving.final:
        # All it did is in the save: letting it go on would only make work to throw away.
        draft.put(
            replace(
                guest,
                phase=GuestPhase.ENDING,
                final_saved=True,
                saved_for=saving.saved_for,
                end_cause=guest.end_cause or EndReason.SAVED,
            )
        )
        draft.do(KillGuest(run_id=guest.run_id, cause=EndReason.SAVED))


def not_dumped(draft: AgentDraft, event: GuestNotDumped) -> None:
    guest = _waiting_for(draft, event.run_id, event.checkpoint_id)
    if guest is not None and guest.saving is not None and not guest.saving.saved:
        draft.put(replace(guest, saving=replace(guest.saving, tier_why=event.why)))


def could_not(draft: AgentDraft, event: GuestCouldNotSave) -> None:
    """A periodic one is given up at once: the next comes in its time. Of a last one there is no next."""
    guest = _waiting_for(draft, event.run_id, event.checkpoint_id)
    if guest is None or guest.saving is None or guest.saving.saved:
        return
    saving = replace(guest.saving, said=event.why)
    guest = draft.put(replace(guest, saving=saving))
    if not saving.final:
        drop(draft, guest, CheckpointTrouble.NOT_SAVED)


def tell_captured(draft: AgentDraft, guest: Guest) -> Guest:
    """That there is something to wait for, once."""
    saving = guest.saving
    assert saving is not None
    if saving.told:
        return guest
    draft.report(
        CheckpointCaptured(
            run_id=guest.run_id,
            job_id=guest.job_id,
            epoch=guest.epoch,
            checkpoint_id=saving.checkpoint_id,
            step=saving.step,
            progress=saving.progress,
            stall_s=saving.stall_s,
            capture_s=saving.capture_s,
            tier=saving.tier,
            tier_why=saving.tier_why,
            size_bytes=saving.size_bytes,
            counted=saving.counted,
        )
    )
    return draft.put(replace(guest, saving=replace(saving, told=True)))


def ship(draft: AgentDraft, guest: Guest) -> None:
    saving = guest.saving
    assert saving is not None
    draft.do(
        ShipCheckpoint(
            run_id=guest.run_id,
            checkpoint_id=saving.checkpoint_id,
            step=saving.step,
            progress=saving.progress,
            rate_bps=saving.rate_bps,
            tier=saving.tier,
            keep=guest.keep,
        )
    )


def shipped(draft: AgentDraft, event: CheckpointShipped) -> None:
    guest = _waiting_for(draft, event.run_id, event.checkpoint_id)
    if guest is None or guest.saving is None:
        return
    saving = guest.saving
    if not saving.told:
        draft.cancel_timer(SaveOverdue(run_id=guest.run_id))
    draft.report(
        CheckpointDurable(
            run_id=guest.run_id,
            job_id=guest.job_id,
            epoch=guest.epoch,
            checkpoint_id=event.checkpoint_id,
            step=event.step,
            progress=event.progress,
            size_bytes=event.size_bytes,
            shipped_bytes=event.shipped_bytes,
            final=saving.final,
            elsewhere=event.elsewhere,
            capture=None if saving.told else _capture_of(saving, draft.now_s),
        )
    )
    _saving_over(draft, guest)


def not_shipped(draft: AgentDraft, event: CheckpointNotShipped) -> None:
    guest = _waiting_for(draft, event.run_id, event.checkpoint_id)
    if guest is not None and _worth_another_try(draft, guest, event.trouble):
        assert guest.saving is not None
        said = event.detail or TROUBLE_IN_WORDS[event.trouble]
        if said != guest.saving.said:  # should its time be over before it is taken, that is why
            draft.put(replace(guest, saving=replace(guest.saving, said=said)))
        draft.set_timer(ShipAgain(run_id=guest.run_id), draft.now_s + SHIP_AGAIN_S)
    elif guest is not None:
        _fail(draft, guest, event.trouble, event.detail)
        _saving_over(draft, guest)


def ship_again(draft: AgentDraft, run_id: str) -> None:
    guest = draft.guests.get(RunId(run_id))
    if guest is not None and guest.saving is not None and guest.saving.saved:
        ship(draft, guest)


def takes_long(draft: AgentDraft, run_id: str) -> None:
    """Either the program to save, or what it has saved to arrive."""
    guest = draft.guests.get(RunId(run_id))
    if guest is None or guest.saving is None:
        return
    if guest.saving.saved:
        tell_captured(draft, guest)
    else:
        said = bool(guest.saving.said)
        drop(draft, guest, CheckpointTrouble.NOT_SAVED if said else CheckpointTrouble.NOT_ANSWERED)


def drop(draft: AgentDraft, guest: Guest, trouble: CheckpointTrouble) -> Guest:
    """Forgets a save that is under way, and says so."""
    assert guest.saving is not None
    if guest.saving.saved:
        draft.do(CancelShipping(run_id=guest.run_id))
    if not guest.saving.told:
        draft.cancel_timer(SaveOverdue(run_id=guest.run_id))
    _fail(draft, guest, trouble)
    return draft.put(replace(guest, saving=None))


def _worth_another_try(draft: AgentDraft, guest: Guest, trouble: CheckpointTrouble) -> bool:
    """A vault that is away or a disk that is full may be of use before the guest has to be gone."""
    saving = guest.saving
    if saving is None or not saving.final or trouble not in _PASSING:
        return False
    deadline_s = draft.deadline_for(guest)
    if deadline_s is not None:
        return draft.now_s + SHIP_AGAIN_S < deadline_s
    if guest.parked and draft.now_s < saving.saved_s + PARKED_PATIENCE_S:
        return True
    # Out of touch with the coordinator, and maybe with a vault that is reached through it. Its files harm
    # nobody meanwhile, and whoever runs the job anew by then has the vault refuse them.
    away = trouble is CheckpointTrouble.VAULT_UNAVAILABLE and not draft.coordinator_is_near()
    return away and draft.now_s < saving.saved_s + OUT_OF_TOUCH_PATIENCE_S


def _waiting_for(draft: AgentDraft, run_id: RunId, checkpoint_id: CheckpointId) -> Guest | None:
    guest = draft.guests.get(run_id)
    if guest is None or guest.saving is None or guest.saving.checkpoint_id != checkpoint_id:
        return None
    return guest


def _fail(draft: AgentDraft, guest: Guest, trouble: CheckpointTrouble, places: str = "") -> None:
    saving = guest.saving
    assert saving is not None
    draft.report(
        CheckpointFailed(
            run_id=guest.run_id,
            job_id=guest.job_id,
            epoch=guest.epoch,
            checkpoint_id=saving.checkpoint_id,
            trouble=trouble,
            detail=saving.tier_why,
            places=places or saving.said,
        )
    )


def _capture_of(saving: Saving, now_s: float) -> Capture:
    return Capture(
        stall_s=saving.stall_s,
        capture_s=saving.capture_s,
        tier=saving.tier,
        sent_for_s=max(0.0, now_s - saving.saved_s),
        counted=saving.counted,
    )


def _step_of(guest: Guest, event: GuestSaved) -> int:
    """A program that says nothing of its steps, dumped: its saves are counted, for the order among them."""
    if event.tier is Tier.SYSTEM and event.step == 0:
        none_made = guest.parked and guest.last_step == 0  # the first of its kind, or it has begun just now
        return 0 if none_made else guest.last_step + 1
    return event.step


def _saving_over(draft: AgentDraft, guest: Guest) -> None:
    guest = draft.put(replace(guest, saving=None))
    if guest.phase is GuestPhase.SHIPPING:
        draft.farewell(guest.run_id)
