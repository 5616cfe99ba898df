"""Guests that stand still in host memory while their owner uses the GPU. Decided on the machine, per guest.

The first rung for a guest whose GPU is wanted: nothing is lost, the GPU is free in seconds, and it goes
on where it stood as soon as the GPU is lent again. What cannot be parked is saved and moved as ever; the
notice's timers run on meanwhile, so that a driver that dawdles costs the owner nothing. One that has to give
up its place is dumped as it stands, where that works, and loses nothing either (`moves`).
"""

from __future__ import annotations

from dataclasses import replace

from gpunion.domain.ids import RunId
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.guest import Guest, GuestPhase, OwnerState, Parking
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.withheld import GpuPhase, HoldCause
from gpunion.domain.protocol.effects import ParkGuest, UnparkGuest
from gpunion.domain.protocol.events import (
    GuestNotDumped,
    GuestNotParked,
    GuestNotUnparked,
    GuestParked,
    GuestUnparked,
)
from gpunion.domain.protocol.reports import RunNotParked, RunParked, RunUnparked
from gpunion.domain.protocol.timers import ParkedTooLong
from gpunion.domain.reasons.reason import Why
from gpunion.engine.agent import guests, saves, windows
from gpunion.engine.agent.draft import AgentDraft
from gpunion.engine.agent.parked import moves as parked_moves

# Freezing and moving some gigabytes takes seconds; with less notice than this the end comes first.
LEAST_NOTICE_S = 2.0
# An owner's run of an hour is no reason to keep a job from the other GPUs of the campus. A quarter of one is
# about what moving it and doing the unsaved steps again costs a job that saves every half hour.
PATIENCE_S = 900.0
# For a dump that nobody waits for, and for what its hands may take beside it.
MOVE_LIMIT_S = 600.0
TOOK_TOO_LONG = "it took too long"


def can_be_parked(draft: AgentDraft, guest: Guest) -> bool:
    """Where its owner wants a GPU of it, but not the machine, and it has not been asked to leave for good."""
    # The others of a gang would stand still for it on their GPUs: that one is moved, with all of them.
    allowed = draft.facts.parks and draft.facts.terms.park and not guest.in_gang
    sliced = {gpu.index for gpu in draft.facts.capacity.gpus if gpu.card}
    allowed = allowed and sliced.isdisjoint(guest.grant.gpu_indices)  # whose memory no driver moves
    if not allowed or guest.phase is not GuestPhase.RUNNING or guest.parking is not None:
        return False
    leaving = guest.final_saved or guest.leave_by_s is not None
    if (
        leaving
        or (guest.saving is not None and guest.saving.final)
        or draft.holding.owner_state is not OwnerState.SHARING
    ):
        return False
    withheld = [draft.withheld(index) for index in guest.grant.gpu_indices]
    wanted = [gpu for gpu in withheld if gpu is not None and gpu.phase is GpuPhase.RECLAIMING]
    if not wanted or any(gpu.cause is HoldCause.SICK for gpu in wanted):
        return False
    return all(
        gpu.deadline_s is not None and gpu.deadline_s - draft.now_s >= LEAST_NOTICE_S for gpu in wanted
    )


def park(draft: AgentDraft, guest: Guest, *, by_s: float) -> None:
    if guest.saving is not None and not guest.saving.saved:
        guest = saves.drop(draft, guest, CheckpointTrouble.PARKED)  # it will not answer any more
    draft.put(replace(guest, parking=Parking.PARKING))
    draft.do(ParkGuest(run_id=guest.run_id, by_s=by_s))


def parked(draft: AgentDraft, event: GuestParked) -> None:
    guest = _in(draft, event.run_id, Parking.PARKING)
    if guest is None:
        return
    guest = draft.put(
        replace(
            guest,
            parking=Parking.PARKED,
            parked_s=draft.now_s,
            parked_bytes=event.moved_bytes,
        )
    )
    draft.report(
        RunParked(
            run_id=guest.run_id,
            job_id=guest.job_id,
            epoch=guest.epoch,
            moved_bytes=event.moved_bytes,
            took_s=event.took_s,
        )
    )
    draft.limit(guest.run_id)  # nothing of it is on the GPU that was wanted
    if guest.room_for is None:
        draft.set_timer(ParkedTooLong(run_id=guest.run_id), draft.now_s + PATIENCE_S)
    else:  # whoever sent it here says how long it stays
        draft.cancel_timer(ParkedTooLong(run_id=guest.run_id))
    deadline_s = draft.deadline_for(guest)
    if deadline_s is not None:  # it was asked to go altogether meanwhile
        parked_moves.begin(draft, guest, by_s=deadline_s)
    wake(draft)  # the owner may have changed their mind meanwhile


def not_parked(draft: AgentDraft, event: GuestNotParked) -> None:
    guest = _in(draft, event.run_id, Parking.PARKING)
    if guest is None:
        return
    draft.cancel_timer(ParkedTooLong(run_id=guest.run_id))
    guest = draft.put(replace(guest, parking=None, room_for=None))
    draft.report(
        RunNotParked(run_id=guest.run_id, job_id=guest.job_id, epoch=guest.epoch, detail=event.detail)
    )
    windows.begin(draft, guest)


def wake(draft: AgentDraft) -> None:
    """Whoever's GPUs are all lent again gets back onto them, unless a job has them or is on them yet."""
    for guest in draft.living():
        if guest.room_for is not None or taken_by_another(draft, guest):
            continue
        held = (draft.withheld(index) for index in guest.grant.gpu_indices)
        away = any(gpu is not None and gpu.phase is not GpuPhase.PAUSED for gpu in held)
        if away or draft.owner_has_it() or parked_moves.under_way(guest):
            continue
        if guest.parked and guest.phase is GuestPhase.RUNNING:
            draft.cancel_timer(ParkedTooLong(run_id=guest.run_id))
            guest = windows.after_standing_still(draft, guest)
            guest = draft.put(replace(guest, parking=Parking.UNPARKING))
            draft.do(UnparkGuest(run_id=guest.run_id))
            if guest.hard_end_s is not None:
                draft.limit(guest.run_id)


def taken_by_another(draft: AgentDraft, guest: Guest) -> bool:
    mine = set(guest.grant.gpu_indices)
    others = (one for one in draft.living() if one.run_id != guest.run_id and not one.parked)
    return any(mine & set(one.grant.gpu_indices) for one in others)


def unparked(draft: AgentDraft, event: GuestUnparked) -> None:
    guest = _in(draft, event.run_id, Parking.UNPARKING)
    if guest is None:
        return
    guest = draft.put(replace(guest, parking=None))
    stood_s = max(0.0, draft.now_s - guest.parked_s)
    draft.report(
        RunUnparked(
            run_id=guest.run_id, job_id=guest.job_id, epoch=guest.epoch, parked_s=stood_s, took_s=event.took_s
        )
    )
    draft.do(draft.notice_for(guest))
    draft.limit(guest.run_id)
    windows.begin(draft, guest)  # its timer may have come up while there was nobody to ask


def not_unparked(draft: AgentDraft, event: GuestNotUnparked) -> None:
    guest = _in(draft, event.run_id, Parking.UNPARKING)
    if guest is not None:
        draft.because(guest.job_id, Why.NOT_UNPARKED, node="this machine", detail=event.detail)
        guests.end_now(draft, guest, EndReason.GUEST_LOST, CheckpointTrouble.GUEST_ENDED)


def too_long(draft: AgentDraft, run_id: str) -> None:
    """It goes on elsewhere: from where it stands if it can be dumped, else from what it saved last."""
    hanging = _in(draft, RunId(run_id), Parking.PARKING)
    if hanging is not None:
        _call_off(draft, hanging)
    guest = _in(draft, RunId(run_id), Parking.PARKED)
    if guest is None:
        return
    if parked_moves.under_way(guest):
        _stays(draft, guest, TOOK_TOO_LONG)
        return
    if guest.gave_place:
        return
    tried = draft.deadline_for(guest) is not None  # when that was set
    if tried or not parked_moves.begin(draft, guest, by_s=draft.now_s + MOVE_LIMIT_S):
        _gives_up(draft, guest)


def _call_off(draft: AgentDraft, guest: Guest) -> None:
    """Nothing was heard of its way off the GPU: wherever it is, it goes back; who waits looks elsewhere."""
    draft.put(replace(guest, parking=Parking.UNPARKING, room_for=None, parked_s=draft.now_s))
    draft.do(UnparkGuest(run_id=guest.run_id))
    draft.report(
        RunNotParked(run_id=guest.run_id, job_id=guest.job_id, epoch=guest.epoch, detail=TOOK_TOO_LONG)
    )


def not_dumped(draft: AgentDraft, event: GuestNotDumped) -> None:
    guest = _in(draft, event.run_id, Parking.PARKED)
    if guest is None:
        saves.not_dumped(draft, event)
    elif guest.saving is not None and guest.saving.checkpoint_id == event.checkpoint_id:
        _stays(draft, guest, event.why)


def _stays(draft: AgentDraft, guest: Guest, why: str) -> None:
    """As if nobody had tried: it goes on here, gives up its place, or is ended by who wants it gone."""
    guest = parked_moves.give_up(draft, guest, why)
    wake(draft)
    guest = draft.guests[guest.run_id]
    patient_until_s = guest.parked_s + PATIENCE_S
    if guest.gave_place:
        return  # whoever gave its place away has heard of it
    if guest.parked and draft.now_s >= patient_until_s:
        _gives_up(draft, guest)
    elif guest.parked:
        draft.set_timer(ParkedTooLong(run_id=guest.run_id), patient_until_s)


def _gives_up(draft: AgentDraft, guest: Guest) -> None:
    draft.because(guest.job_id, Why.PARKED_TOO_LONG, node="this machine", patience_s=PATIENCE_S)
    guests.leave_gpu(draft, guest, EndReason.DEADLINE)


def taken_up(draft: AgentDraft, guest: Guest) -> None:
    """After a restart: what was being done to it may or may not have been done."""
    if guest.phase is not GuestPhase.RUNNING:
        return
    if guest.parking is Parking.PARKING:
        ends_s = [draft.deadline_for(guest), None if guest.room_for is None else guest.park_by_s]
        by_s = min((at_s for at_s in ends_s if at_s is not None), default=draft.now_s)
        draft.do(ParkGuest(run_id=guest.run_id, by_s=by_s))
    elif guest.parking is Parking.UNPARKING:
        draft.do(UnparkGuest(run_id=guest.run_id))
    elif guest.parked and parked_moves.under_way(guest):
        parked_moves.take_up(draft, guest, by_s=draft.deadline_for(guest) or draft.now_s + MOVE_LIMIT_S)


def _in(draft: AgentDraft, run_id: RunId, parking: Parking) -> Guest | None:
    guest = draft.guests.get(run_id)
    if guest is None or guest.phase is not GuestPhase.RUNNING or guest.parking is not parking:
        return None
    return guest
