"""A guest starts, and ends: by itself, by its user, by its owner's host."""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import RunId, own_checkpoint_id
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.guest import Guest, GuestPhase, Saving
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.protocol.effects import CancelShipping, KillGuest, ShipOutput
from gpunion.domain.protocol.events import (
    GuestExited,
    GuestStarted,
    GuestStartFailed,
    KeptOutputSent,
    OutputShipped,
)
from gpunion.domain.protocol.reports import OutputArrived, RunEnded, RunStarted
from gpunion.domain.protocol.timers import KillDue, SaveOverdue
from gpunion.domain.reasons.reason import Why
from gpunion.engine.agent import saves, windows
from gpunion.engine.agent.draft import AgentDraft

# "Saved, run me again" (contracts.md).
EXIT_SAVED = 85


def started(draft: AgentDraft, event: GuestStarted) -> None:
    guest = draft.guests.get(event.run_id)
    if guest is None or guest.phase is not GuestPhase.STARTING:
        return
    began_s = None if guest.subjob is None else draft.now_s  # of the others nobody asks
    guest = replace(guest, phase=GuestPhase.RUNNING, last_step=event.resumed_step, began_s=began_s)
    draft.put(guest)
    draft.report(
        RunStarted(
            run_id=guest.run_id,
            job_id=guest.job_id,
            epoch=guest.epoch,
            restored=event.restored,
            resumed_step=event.resumed_step,
            restore_s=event.restore_s,
            tier=event.tier,
            found_bytes=event.found_bytes,
            direct_bytes=event.direct_bytes,
            trouble=event.trouble,
            passed_over=event.passed_over,
            unreadable=event.unreadable,
        )
    )
    draft.limit(guest.run_id)
    windows.begin(draft, guest)
    if draft.deadline_for(guest) is not None:
        draft.do(draft.notice_for(guest))


def start_failed(draft: AgentDraft, event: GuestStartFailed) -> None:
    guest = draft.guests.get(event.run_id)
    if guest is None or not guest.living:
        return
    draft.cancel_timer(KillDue(run_id=guest.run_id))
    failed = event.why in (None, Why.SAVE_UNREADABLE)
    reason = EndReason.START_FAILED if failed else EndReason.REFUSED
    if event.why in (Why.NO_ROOM_FOR_IMAGE, Why.NO_ROOM_FOR_PACKAGES):
        draft.because(guest.run_id, event.why, detail=event.detail)
    _report_end(draft, guest, guest.end_cause or reason, detail=event.detail, why=event.why)
    draft.farewell(guest.run_id)


def exited(draft: AgentDraft, event: GuestExited) -> None:
    guest = draft.guests.get(event.run_id)
    if guest is None or not guest.living:
        return
    draft.cancel_timer(KillDue(run_id=guest.run_id))
    last_step = max(guest.last_step, event.last_step)
    seen = event.seen or guest.seen
    guest = replace(guest, exit_code=event.exit_code, last_step=last_step, seen=seen, used=event.used)
    guest = draft.put(guest)
    reason = _end_reason(guest, event, draft.deadline_for(guest))
    if draft.owner_has_it():
        _end_in_silence(draft, guest, reason)
        return
    guest = _settle_saving(draft, guest, reason, event.last_progress)
    if reason is EndReason.FINISHED:
        draft.put(replace(guest, phase=GuestPhase.SHIPPING))
        draft.do(ShipOutput(run_id=guest.run_id, keep=guest.keep))
        return
    if reason is EndReason.FAILED and guest.saving is None:
        # What it has made so far may be all that its user wants, or tell why it failed.
        failed = replace(guest, phase=GuestPhase.SHIPPING, end_cause=reason, end_detail=event.detail)
        draft.put(failed)
        draft.do(ShipOutput(run_id=guest.run_id, keep=guest.keep))
        return
    detail = draft.sickness_of(guest) if reason is EndReason.SICK_GPU else ""
    _report_end(draft, guest, reason, detail=detail or event.detail)
    if guest.saving is not None:
        draft.put(replace(guest, phase=GuestPhase.SHIPPING))
    else:
        draft.farewell(guest.run_id)


def output_shipped(draft: AgentDraft, event: OutputShipped) -> None:
    guest = draft.guests.get(event.run_id)
    if guest is None or guest.phase is not GuestPhase.SHIPPING:
        return
    if guest.end_cause is EndReason.FAILED or event.hopeless:
        words = (guest.end_detail, event.detail, event.left_out, _kept_in_words(event))
        _report_end(draft, guest, EndReason.FAILED, detail="; ".join(filter(None, words)), output=event)
    elif event.detail:
        # Finished, but what it made did not get out: as good as not finished.
        _report_end(draft, guest, EndReason.OUTPUT_LOST, detail=event.detail, output=event)
    else:
        _report_end(draft, guest, EndReason.FINISHED, detail=event.left_out, output=event)
    draft.farewell(guest.run_id)


def kept_output_sent(draft: AgentDraft, event: KeptOutputSent) -> None:
    draft.report(
        OutputArrived(run_id=event.run_id, job_id=event.job_id, epoch=event.epoch, output=event.output)
    )


def would_not_go(draft: AgentDraft, run_id: str) -> None:
    guest = draft.guests.get(RunId(run_id))
    if guest is not None and guest.living:
        draft.do(KillGuest(run_id=guest.run_id, cause=guest.end_cause or EndReason.STOPPED))


def leave_gpu(draft: AgentDraft, guest: Guest, cause: EndReason) -> None:
    """Off the GPU without asking. What it has saved may still be sent: the rest of the machine is lent."""
    if guest.saving is not None and not guest.saving.saved:
        guest = saves.drop(draft, guest, CheckpointTrouble.DEADLINE)
    draft.put(replace(guest, phase=GuestPhase.ENDING, end_cause=guest.end_cause or cause))
    draft.do(KillGuest(run_id=guest.run_id, cause=cause))


def end_now(
    draft: AgentDraft,
    guest: Guest,
    cause: EndReason,
    trouble: CheckpointTrouble = CheckpointTrouble.DEADLINE,
) -> None:
    """Without asking. What it was shipping is cut as well: after this nothing of it runs or sends."""
    if guest.saving is not None:
        guest = saves.drop(draft, guest, trouble)
    if guest.living:
        draft.put(replace(guest, phase=GuestPhase.ENDING, end_cause=cause))
        draft.do(KillGuest(run_id=guest.run_id, cause=cause))
    else:
        draft.do(CancelShipping(run_id=guest.run_id))
        if guest.end_cause is EndReason.FAILED:
            _report_end(draft, guest, EndReason.FAILED, detail=guest.end_detail)
        elif not guest.final_saved and guest.exit_code == 0:
            _report_end(draft, guest, cause, detail="finished, but its output could not be saved in time")
        draft.farewell(guest.run_id)


def _end_reason(guest: Guest, event: GuestExited, leave_by_s: float | None) -> EndReason:
    if guest.final_saved:
        return EndReason.SAVED
    if guest.end_cause is EndReason.STOPPED:
        return EndReason.STOPPED
    if event.exit_code == 0:
        return EndReason.FINISHED
    if event.exit_code == EXIT_SAVED:
        return EndReason.SAVED
    if guest.end_cause is EndReason.SICK_GPU:
        return EndReason.SICK_GPU  # whoever ended it first: the GPU is why
    cause = event.cause or guest.end_cause
    if cause is EndReason.DEADLINE and windows.ended_by_it(guest, leave_by_s):
        return EndReason.WINDOW
    if cause is not None:
        return cause
    return EndReason.GUEST_LOST if event.exit_code is None else EndReason.FAILED


def _end_in_silence(draft: AgentDraft, guest: Guest, reason: EndReason) -> None:
    """The owner has the machine: what the guest left behind stays behind, however good it is."""
    unsent = guest.saving is not None or not guest.final_saved
    if guest.saving is not None:
        guest = saves.drop(draft, guest, CheckpointTrouble.DEADLINE)
    detail = ""
    if reason in (EndReason.FINISHED, EndReason.SAVED) and unsent:
        detail = f"{reason.value}, but what it left could not be sent in time"
        reason = guest.end_cause or EndReason.DEADLINE
    _report_end(draft, guest, reason, detail=detail)
    draft.farewell(guest.run_id)


def _settle_saving(draft: AgentDraft, guest: Guest, reason: EndReason, progress: float) -> Guest:
    """What becomes of a save that was under way when the guest ended."""
    if guest.saving is not None and guest.saving.saved:
        # A periodic save may still arrive and is worth having, unless it made itself superfluous.
        if reason is EndReason.FINISHED:
            return saves.drop(draft, guest, CheckpointTrouble.GUEST_ENDED)
        if reason is EndReason.SAVED and not guest.final_saved:
            guest = saves.drop(draft, guest, CheckpointTrouble.SUPERSEDED)
            return _ship_what_it_left(draft, guest, progress)  # newer than what was on its way
        draft.cancel_timer(SaveOverdue(run_id=guest.run_id))
        return saves.tell_captured(draft, guest)
    if guest.saving is not None:
        if reason is not EndReason.SAVED:
            return saves.drop(draft, guest, CheckpointTrouble.GUEST_ENDED)
        draft.cancel_timer(SaveOverdue(run_id=guest.run_id))
    if reason is EndReason.SAVED and not guest.final_saved:
        return _ship_what_it_left(draft, guest, progress)
    return guest


def _ship_what_it_left(draft: AgentDraft, guest: Guest, progress: float) -> Guest:
    """Exit 85: the directory stands still now, so all of it is a consistent cut."""
    if guest.saving is None:
        number = guest.own_saves + 1
        rate_bps = windows.rate_bps(draft) if _ended_its_piece(draft, guest) else 0.0
        saving = Saving(checkpoint_id=own_checkpoint_id(guest.run_id, number), final=True, rate_bps=rate_bps)
        guest = replace(guest, own_saves=number)
    else:
        saving = guest.saving
    saving = replace(
        saving, final=True, saved=True, saved_s=draft.now_s, step=guest.last_step, progress=progress
    )
    saved_for = saving.saved_for
    if saved_for is None and _ended_its_piece(draft, guest):
        saved_for = EndReason.WINDOW
    elif saved_for is None and draft.deadline_for(guest) is not None:
        saved_for = EndReason.DEADLINE  # it read the notice
    guest = replace(guest, saving=saving, final_saved=True, saved_for=saved_for)
    guest = saves.tell_captured(draft, guest)  # else nobody would wait for it to arrive
    saves.ship(draft, guest)
    return guest


def _ended_its_piece(draft: AgentDraft, guest: Guest) -> bool:
    """By itself, since its window is nearly over."""
    if guest.subjob is None or guest.subjob.ends_s is None or not windows.is_nearly_over(guest, draft.now_s):
        return False
    deadline_s = draft.deadline_for(guest)
    return deadline_s is None or (guest.subjob.hard and guest.subjob.ends_s <= deadline_s)


def _report_end(
    draft: AgentDraft,
    guest: Guest,
    reason: EndReason,
    *,
    detail: str = "",
    why: Why | None = None,
    output: OutputShipped | None = None,
) -> None:
    draft.report(
        RunEnded(
            run_id=guest.run_id,
            job_id=guest.job_id,
            epoch=guest.epoch,
            reason=reason,
            last_step=guest.last_step,
            exit_code=guest.exit_code,
            output=None if output is None else output.output,
            why=why,
            detail=detail,
            at_s=draft.now_s,
            saved_for=guest.saved_for if reason is EndReason.SAVED else None,
            seen=windows.seen(guest, draft.now_s),
            kept="" if output is None else output.kept,
            used=guest.used,
        )
    )


def _kept_in_words(event: OutputShipped) -> str:
    if not event.kept:
        return ""
    return f"what it made stays on its machine until {event.kept} and is sent when its place has room"
