"""The coordinator's orders: refused where the owner, the epoch or the lease says no."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpunion.domain.image import Parcel
from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.guest import Guest, GuestPhase, OwnerState, Saving
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.jobs.window import Subjob
from gpunion.domain.nodes.node import NodeFacts
from gpunion.domain.nodes.withheld import WithheldGpu
from gpunion.domain.protocol.effects import (
    DropState,
    FetchAhead,
    FetchState,
    StartGuest,
    TellEnd,
    TerminateGuest,
)
from gpunion.domain.protocol.events import StateFetched
from gpunion.domain.protocol.orders import (
    EndSession,
    FetchImage,
    Order,
    ParkRun,
    SetWindow,
    StageState,
    StartRun,
    StopRun,
    TakeCheckpoint,
    UnparkRun,
    UnstageState,
)
from gpunion.domain.protocol.reports import CheckpointFailed, RunEnded, StateStaged
from gpunion.domain.protocol.timers import KillDue, LeaseOver
from gpunion.domain.reasons.reason import Why
from gpunion.domain.reasons.wording import lab_in_words
from gpunion.domain.resources import Grant
from gpunion.engine.agent import saves, windows
from gpunion.engine.agent.draft import AgentDraft
from gpunion.engine.agent.parked import for_a_job
from gpunion.engine.agent.parked import moves as parked_moves
from gpunion.policy.terms.welcome import unwelcome
from gpunion.text import counted, size_in_words

# Shares of CPUs are fractions, and adding them up in another order gives another last digit.
ROUNDING = 1e-6


def received(draft: AgentDraft, order: Order) -> None:
    match order:  # the commonest first
        case TakeCheckpoint():
            take_checkpoint(draft, order)
        case StartRun():
            start_run(draft, order)
        case StopRun():
            stop_run(draft, order)
        case SetWindow():
            windows.set_window(draft, order)
        case EndSession():
            end_session(draft, order)
        case ParkRun():
            for_a_job.park(draft, order)
        case UnparkRun():
            for_a_job.go_back(draft, order)
        case FetchImage(parcel=parcel):
            if draft.holding.owner_state is OwnerState.SHARING and _image_refused(draft, parcel) is None:
                draft.do(FetchAhead(parcel=parcel))
        case StageState():
            if draft.holding.owner_state is OwnerState.SHARING and order.epoch >= draft.epoch_of(
                order.job_id
            ):
                draft.do(FetchState(order=order))
        case UnstageState(job_id=job_id):
            draft.do(DropState(job_id=job_id))


def end_session(draft: AgentDraft, order: EndSession) -> None:
    guest = draft.guests.get(order.run_id)
    if guest is not None and guest.epoch == order.epoch and guest.phase is GuestPhase.RUNNING:
        draft.do(TellEnd(run_id=guest.run_id, because=order.because))


def state_fetched(draft: AgentDraft, event: StateFetched) -> None:
    draft.report(
        StateStaged(
            job_id=event.job_id,
            epoch=event.epoch,
            checkpoint_id=event.checkpoint_id,
            fetched_bytes=event.fetched_bytes,
            direct_bytes=event.direct_bytes,
            trouble=event.trouble,
        )
    )


def start_run(draft: AgentDraft, order: StartRun) -> None:
    if order.run_id in draft.guests:
        return
    refused = _refusal(draft, order)
    draft.saw_epoch(order.job_id, order.epoch)
    if refused is not None:
        _refuse(draft, order, refused)
        return
    draft.put(_as_guest(draft, order))
    last_moment_s = draft.last_moment_s()
    assert last_moment_s is not None
    assert draft.lease_until_s is not None
    draft.do(StartGuest(order=order, lease_until_s=last_moment_s))
    draft.limit(order.run_id)
    draft.set_timer(LeaseOver(), draft.lease_until_s + draft.facts.terms.autonomy_s)


def _as_guest(draft: AgentDraft, order: StartRun) -> Guest:
    return Guest(
        run_id=order.run_id,
        job_id=order.job_id,
        epoch=order.epoch,
        grant=order.grant,
        phase=GuestPhase.STARTING,
        name=order.name,
        user=order.user,
        lab=order.lab,
        came_s=draft.now_s,
        restore=order.restore,
        restore_step=order.restore_step,
        in_gang=order.seat is not None,
        keep=order.keep,
        whole=order.whole,
        subjob=order.subjob,
        session=order.session is not None,
    )


def stop_run(draft: AgentDraft, order: StopRun) -> None:
    draft.saw_epoch(order.job_id, order.epoch)
    guest = draft.guests.get(order.run_id)
    if guest is None:
        draft.report(
            RunEnded(
                run_id=order.run_id,
                job_id=order.job_id,
                epoch=order.epoch,
                reason=EndReason.UNKNOWN,
                last_step=0,
            )
        )
        return
    if guest.phase in (GuestPhase.STARTING, GuestPhase.RUNNING):
        draft.put(replace(guest, phase=GuestPhase.ENDING, end_cause=EndReason.STOPPED))
        draft.do(TerminateGuest(run_id=guest.run_id))
        draft.set_timer(KillDue(run_id=guest.run_id), draft.now_s + draft.timing.stop_grace_s)
    elif guest.phase is GuestPhase.SHIPPING and guest.saving is not None and not order.spares_save:
        # It was given up meanwhile: its last save comes too late and only takes room on the wire.
        saves.drop(draft, guest, CheckpointTrouble.SUPERSEDED)
        draft.farewell(guest.run_id)


def take_checkpoint(draft: AgentDraft, order: TakeCheckpoint) -> None:
    guest = draft.guests.get(order.run_id)
    if guest is None or guest.phase is not GuestPhase.RUNNING:
        over = guest is not None and guest.sends_output
        _cannot(draft, order, CheckpointTrouble.OVER if over else CheckpointTrouble.NO_GUEST)
        return
    if guest.parking is not None:
        if not parked_moves.begin_as_ordered(draft, guest, order):
            _cannot(draft, order, CheckpointTrouble.PARKED)
        return
    if guest.saving is not None:
        if guest.saving.final or not (order.final or _of_a_later_round(guest.saving, order)):
            _cannot(draft, order, CheckpointTrouble.SUPERSEDED)
            return
        guest = saves.drop(draft, guest, CheckpointTrouble.SUPERSEDED)
    saving = Saving(
        checkpoint_id=order.checkpoint_id,
        final=order.final,
        rate_bps=order.rate_bps,
        at_step=order.at_step,
        dump=order.dump,
    )
    if order.keep is not None:
        guest = replace(guest, keep=order.keep)
    if order.whole is not guest.whole:
        guest = replace(guest, whole=order.whole)
    saves.ask(draft, guest, saving, by_s=order.by_s)


def _of_a_later_round(saving: Saving, order: TakeCheckpoint) -> bool:
    """The members of a gang have been asked anew: of the former round there will be no whole one."""
    return order.at_step > saving.at_step > 0


def _refusal(draft: AgentDraft, order: StartRun) -> Why | None:
    if order.epoch <= draft.epoch_of(order.job_id):
        return Why.OLD_EPOCH
    if draft.holding.owner_state is not OwnerState.SHARING:
        return Why.OWNER_SAID_NO
    if _withheld(draft, order) is not None:
        return Why.GPU_WITHHELD
    against = _against_the_terms(draft, order)
    if against is not None:
        return against
    if draft.lease_until_s is None or draft.now_s >= draft.lease_until_s:
        return Why.NO_LEASE
    for guest in draft.living():
        on_gpus = () if guest.gave_place else guest.grant.gpu_indices
        if guest.job_id == order.job_id or set(on_gpus) & set(order.grant.gpu_indices):
            return Why.GPU_BUSY
    if order.subjob is not None and _is_past(order.subjob, draft.now_s):
        return Why.WINDOW_PAST
    return Why.BEYOND_MACHINE if _beyond_the_machine(draft, order) else None


def _is_past(subjob: Subjob, now_s: float) -> bool:
    return subjob.hard and subjob.ends_s is not None and subjob.ends_s <= now_s


def _beyond_the_machine(draft: AgentDraft, order: StartRun) -> str:
    return _lacking(draft.facts, draft.living(), order.grant)


def _lacking(facts: NodeFacts, guests: Sequence[Guest], grant: Grant) -> str:
    """What it would lack, in words; nothing where it has it all. The coordinator looks too, but an owner's
    machine takes nobody's word for what it has."""
    here = {gpu.index for gpu in facts.capacity.gpus}
    absent = sorted(set(grant.gpu_indices) - here)
    if absent:
        return f"it has no GPU {absent[0]}"
    if len(set(grant.gpu_indices)) < len(grant.gpu_indices):
        return "one GPU is granted twice"
    cpus = sum(guest.grant.cpus for guest in guests if not guest.gave_place) + grant.cpus
    if not 0 <= cpus <= facts.capacity.cpus + ROUNDING:
        return f"it has {counted(float(facts.capacity.cpus), 'CPU')}"
    memory_bytes = sum(guest.grant.memory_bytes for guest in guests) + grant.memory_bytes
    if not 0 <= memory_bytes <= facts.capacity.memory_bytes:
        return f"it has {size_in_words(facts.capacity.memory_bytes)} of memory"
    return ""


def _against_the_terms(draft: AgentDraft, order: StartRun) -> Why | None:
    """The coordinator has looked too, but at what it was last told; the owner's own word is here."""
    facts = draft.facts
    if not facts.terms.admits(order.lab, order.user):
        admitted = facts.terms.admits_lab(order.lab)
        return Why.PERSON_NOT_ADMITTED if admitted else Why.LAB_NOT_ADMITTED
    if not facts.sandboxed and not facts.terms.allow_unsandboxed:
        return Why.UNSANDBOXED
    if len(draft.living()) >= facts.terms.max_guests:
        return Why.GUESTS_FULL
    if _beyond_the_caps(draft, order):
        return Why.BEYOND_TERMS
    return None if order.image is None else _image_refused(draft, order.image)


def _beyond_the_caps(draft: AgentDraft, order: StartRun) -> str:
    """Why it would be one too many beside those who are here."""
    everybody = [*draft.living(), _as_guest(draft, order)]
    return unwelcome(draft.facts.terms, everybody).get(order.run_id, "")


def _image_refused(draft: AgentDraft, parcel: Parcel) -> Why | None:
    if not draft.facts.takes_images:
        return Why.NO_IMAGES_HERE
    return None if draft.facts.terms.admits_image(parcel.image) else Why.IMAGE_NOT_ADMITTED


def _withheld(draft: AgentDraft, order: StartRun) -> WithheldGpu | None:
    gpus = (draft.withheld(index) for index in order.grant.gpu_indices)
    return next((gpu for gpu in gpus if gpu is not None), None)


def _refuse(draft: AgentDraft, order: StartRun, why: Why) -> None:
    detail = ""
    if why is Why.OLD_EPOCH:
        current = draft.epoch_of(order.job_id)
        draft.because(order.run_id, why, epoch=order.epoch, current=current)
    elif why is Why.OWNER_SAID_NO:
        draft.because(order.run_id, why, phase=draft.holding.owner_state.value)
    elif why is Why.LAB_NOT_ADMITTED:
        draft.because(order.run_id, why, lab=lab_in_words(order.lab))
    elif why is Why.PERSON_NOT_ADMITTED:
        draft.because(order.run_id, why, person=order.user or "guests without a name")
    elif why is Why.BEYOND_TERMS:
        detail = draft.because(order.run_id, why, detail=_beyond_the_caps(draft, order))
    elif why is Why.BEYOND_MACHINE:
        detail = draft.because(order.run_id, why, detail=_beyond_the_machine(draft, order))
    elif why is Why.GUESTS_FULL:
        draft.because(order.run_id, why, limit=draft.facts.terms.max_guests)
    elif why is Why.GPU_WITHHELD:
        withheld = _withheld(draft, order)
        because = "" if withheld is None else withheld.because()
        draft.because(order.run_id, why, free=0, needs=len(order.grant.gpu_indices), because=because)
    elif why is Why.NO_IMAGES_HERE:
        detail = draft.because(order.run_id, why, runtime=draft.facts.runtime)
    elif why is Why.IMAGE_NOT_ADMITTED and order.image is not None:
        detail = draft.because(order.run_id, why, image=order.image.image.ref)
    else:
        draft.because(order.run_id, why)
    draft.report(
        RunEnded(
            run_id=order.run_id,
            job_id=order.job_id,
            epoch=order.epoch,
            reason=EndReason.REFUSED,
            last_step=0,
            why=why,
            detail=detail,
        )
    )


def _cannot(draft: AgentDraft, order: TakeCheckpoint, trouble: CheckpointTrouble) -> None:
    draft.report(
        CheckpointFailed(
            run_id=order.run_id,
            job_id=order.job_id,
            epoch=order.epoch,
            checkpoint_id=order.checkpoint_id,
            trouble=trouble,
        )
    )
