"""The owner's word about single GPUs: the rest of the machine stays lent.

Unlike a whole machine, a GPU that is taken back leaves its guest the network: what was saved in time may
still be sent afterwards. So the deadline ends who runs on the GPU, not who is already gone from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from gpunion.domain.jobs.checkpoint import CheckpointTrouble
from gpunion.domain.jobs.guest import Guest, GuestPhase, OwnerState, Parking
from gpunion.domain.jobs.run import EndReason
from gpunion.domain.nodes.terms import TERM_BEFORE_DEADLINE_S
from gpunion.domain.nodes.withheld import GpuPhase, HoldCause, WithheldGpu, weightier, with_gpu, without_gpus
from gpunion.domain.protocol.effects import TerminateGuest
from gpunion.domain.protocol.events import OwnerPaused, OwnerReclaimed, OwnerResumed
from gpunion.domain.protocol.reports import GpusKeptFree, NodePaused, NodeReclaimed, NodeResumed, NoticeGiven
from gpunion.domain.protocol.timers import Deadline, LastSeconds, NoticeTimer, OneGpu, OwnSave, of_notice
from gpunion.domain.reasons.reason import Why
from gpunion.engine.agent import guests, saves
from gpunion.engine.agent.draft import AgentDraft
from gpunion.engine.agent.parked import parking


def reclaim(draft: AgentDraft, event: OwnerReclaimed) -> None:
    if draft.holding.owner_state is OwnerState.LEFT:
        return
    _keep_free(draft, event)
    asked = [_reclaimed(draft, event, index) for index in _known(draft, event.gpus)]
    wanted = [gpu for gpu in asked if gpu is not None]
    for gpu in wanted:
        _withhold(draft, gpu)
    indices = [gpu.index for gpu in wanted]
    parkable = [guest for guest in _on(draft, indices) if parking.can_be_parked(draft, guest)]
    _report_notices(draft, wanted, parkable)
    for guest in _on(draft, indices):
        deadline_s = draft.deadline_for(guest)
        if deadline_s is not None and deadline_s > draft.now_s:
            draft.do(draft.notice_for(guest))
            draft.limit(guest.run_id)
    for guest in parkable:
        deadline_s = draft.deadline_for(guest)
        assert deadline_s is not None
        parking.park(draft, guest, by_s=deadline_s)
    for gpu in wanted:
        _run_the_notice(draft, gpu)


def _keep_free(draft: AgentDraft, event: OwnerReclaimed) -> None:
    """Of GPUs that the owner's own work took, whether it goes on: who waits is told until when."""
    if event.cause is not HoldCause.OWN_WORK:
        return
    held = [gpu for gpu in map(draft.withheld, _known(draft, event.gpus)) if gpu is not None]
    news = [gpu for gpu in held if gpu.cause is event.cause and gpu.until_s != event.until_s]
    for gpu in news:
        _withhold(draft, replace(gpu, until_s=event.until_s))
    if news:
        draft.report(GpusKeptFree(gpus=tuple(gpu.index for gpu in news), until_s=event.until_s))


def pause(draft: AgentDraft, event: OwnerPaused) -> None:
    if draft.holding.owner_state is OwnerState.LEFT:
        return
    paused = []
    for index in _known(draft, event.gpus):
        gpu = draft.withheld(index)
        if gpu is None:
            gpu = WithheldGpu(index=index, phase=GpuPhase.PAUSED, asked_s=draft.now_s)
        elif gpu.cause in (HoldCause.OWN_WORK, HoldCause.TERMS):
            gpu = replace(gpu, cause=HoldCause.OWNER)  # from now on it ends by their word, not by itself
        else:
            continue
        _withhold(draft, gpu)
        paused.append(index)
    if paused:
        draft.report(NodePaused(gpus=tuple(paused)))


def resume(draft: AgentDraft, event: OwnerResumed) -> None:
    lifted = []
    for index in _known(draft, event.gpus):
        gpu = draft.withheld(index)
        if gpu is not None and event.cause in (HoldCause.OWNER, gpu.cause):
            lifted.append(index)
    if not lifted or draft.holding.owner_state is OwnerState.LEFT:
        return
    lift(draft, lifted)
    draft.report(NodeResumed(gpus=tuple(lifted)))


def lift(draft: AgentDraft, indices: Iterable[int]) -> None:
    """These GPUs are lent again; who was told to go may stay, unless somebody else wants it gone."""
    indices = list(indices)
    cancel_timers(draft, indices)
    draft.hold(replace(draft.holding, gpus=without_gpus(draft.holding.gpus, indices)))
    for guest in _on(draft, indices):
        draft.do(draft.notice_for(guest))
        draft.limit(guest.run_id)
    parking.wake(draft)


def cancel_timers(draft: AgentDraft, indices: Iterable[int]) -> None:
    for index in sorted(indices):
        for timer in of_notice(OneGpu(index=index)):
            draft.cancel_timer(timer)


def timer_fired(draft: AgentDraft, timer: NoticeTimer, index: int) -> None:
    match timer:
        case Deadline():
            deadline_came(draft, index)
        case LastSeconds():
            last_seconds(draft, index)
        case OwnSave():
            save_unasked(draft, index)
        case _:
            assert_never(timer)


def last_seconds(draft: AgentDraft, index: int) -> None:
    for guest in _on(draft, [index]):
        if guest.parking is Parking.PARKING:
            continue  # it may make it yet; if not, the deadline ends it
        draft.put(replace(guest, end_cause=guest.end_cause or EndReason.DEADLINE))
        draft.do(TerminateGuest(run_id=guest.run_id))


def save_unasked(draft: AgentDraft, index: int) -> None:
    """As for a whole machine: the coordinator's plan counts while it is near."""
    gpu = draft.withheld(index)
    if gpu is None or gpu.phase is not GpuPhase.RECLAIMING or gpu.deadline_s is None:
        return
    if draft.may_wait_for_a_plan(gpu.deadline_s):
        again_s = draft.now_s + draft.timing.own_save_patience_s
        if again_s < gpu.deadline_s:
            draft.set_timer(OwnSave(of=OneGpu(index=index)), again_s)
        return
    for guest in _on(draft, [index]):
        final_asked = guest.saving is not None and guest.saving.final
        if guest.phase is GuestPhase.RUNNING and guest.parking is None and not final_asked:
            saves.ask_by_ourselves(draft, guest, by_s=gpu.deadline_s, saved_for=EndReason.DEADLINE)


def deadline_came(draft: AgentDraft, index: int) -> None:
    gpu = draft.withheld(index)
    if gpu is None or gpu.phase is not GpuPhase.RECLAIMING:
        return
    for guest in _on(draft, [index]):
        if gpu.cause is HoldCause.SICK:
            # Nothing that was computed on a broken GPU may become what the job goes on from.
            guests.end_now(draft, guest, EndReason.SICK_GPU, CheckpointTrouble.GUEST_ENDED)
        else:
            guests.leave_gpu(draft, guest, EndReason.DEADLINE)


def restarted(draft: AgentDraft, *, rebooted: bool) -> None:
    """Before anybody is taken up again. After a reboot nobody can tell how much of a notice is left."""
    for gpu in draft.holding.gpus:
        over = gpu.deadline_s is not None and draft.now_s >= gpu.deadline_s
        if gpu.phase is GpuPhase.RECLAIMING and (over or rebooted):
            deadline_came(draft, gpu.index)


def settle(draft: AgentDraft) -> None:
    """A GPU is its owner's as soon as nobody runs on it."""
    for gpu in draft.holding.gpus:
        if gpu.phase is GpuPhase.RECLAIMING and not _on(draft, [gpu.index]):
            cancel_timers(draft, [gpu.index])
            _withhold(draft, replace(gpu, phase=GpuPhase.RECLAIMED, deadline_s=None))
            freed_after_s = max(0.0, draft.now_s - gpu.asked_s)
            draft.because("machine", Why.GPU_FREE, gpus=str(gpu.index), freed_after_s=freed_after_s)
            draft.report(NodeReclaimed(freed_after_s=freed_after_s, gpus=(gpu.index,)))


def _reclaimed(draft: AgentDraft, event: OwnerReclaimed, index: int) -> WithheldGpu | None:
    """What becomes of one GPU; None where the word changes nothing."""
    deadline_s = draft.now_s + max(0.0, event.notice_s)
    fresh = WithheldGpu(
        index=index,
        phase=GpuPhase.RECLAIMING,
        cause=event.cause,
        detail=event.detail,
        asked_s=draft.now_s,
        deadline_s=deadline_s,
    )
    gpu = draft.withheld(index)
    if gpu is None:
        return fresh
    cause = weightier(gpu.cause, event.cause)
    detail = event.detail if cause is event.cause else gpu.detail
    if gpu.phase is GpuPhase.PAUSED:
        return replace(fresh, cause=cause, detail=detail)
    if gpu.phase is GpuPhase.RECLAIMED:
        # Nobody is on it. Told again only where the word that ends it is another one now.
        return None if cause is gpu.cause else replace(fresh, cause=cause, detail=detail)
    # A second word may shorten a notice, never lengthen it behind the first one's back.
    shorter_s = deadline_s if gpu.deadline_s is None else min(deadline_s, gpu.deadline_s)
    changed = replace(gpu, deadline_s=shorter_s, cause=cause, detail=detail)
    return None if changed == gpu else changed


def _report_notices(draft: AgentDraft, wanted: list[WithheldGpu], parkable: list[Guest]) -> None:
    """One notice for all GPUs of the same deadline and cause."""
    alike: dict[tuple[float, HoldCause, str], list[int]] = {}
    for gpu in wanted:
        deadline_s = draft.now_s if gpu.deadline_s is None else gpu.deadline_s
        alike.setdefault((deadline_s, gpu.cause, gpu.detail), []).append(gpu.index)
    for (deadline_s, cause, detail), gpus in sorted(alike.items()):
        parked = [guest.run_id for guest in parkable if set(guest.grant.gpu_indices) & set(gpus)]
        draft.report(
            NoticeGiven(
                deadline_s=deadline_s, gpus=tuple(gpus), cause=cause, detail=detail, parking=tuple(parked)
            )
        )


def _run_the_notice(draft: AgentDraft, gpu: WithheldGpu) -> None:
    deadline_s = gpu.deadline_s
    if deadline_s is None or deadline_s <= draft.now_s:
        deadline_came(draft, gpu.index)
        return
    noticed = OneGpu(index=gpu.index)
    draft.set_timer(Deadline(of=noticed), deadline_s)
    term_s = deadline_s - TERM_BEFORE_DEADLINE_S
    if term_s > draft.now_s:
        draft.set_timer(LastSeconds(of=noticed), term_s)
    patience_s = min(draft.timing.own_save_patience_s, (deadline_s - draft.now_s) / 4)
    draft.set_timer(OwnSave(of=noticed), draft.now_s + patience_s)


def _known(draft: AgentDraft, gpus: Iterable[int]) -> list[int]:
    """Those of the machine's. A word about none of them must not become one about the whole machine."""
    return sorted({gpu.index for gpu in draft.facts.capacity.gpus} & set(gpus))


def _on(draft: AgentDraft, indices: Iterable[int]) -> list[Guest]:
    """Who computes there. A parked guest does not: it has nothing on any GPU."""
    wanted = set(indices)
    return [g for g in draft.living() if not g.parked and wanted & set(g.grant.gpu_indices)]


def _withhold(draft: AgentDraft, gpu: WithheldGpu) -> None:
    draft.hold(replace(draft.holding, gpus=with_gpu(draft.holding.gpus, gpu)))
