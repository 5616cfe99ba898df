"""Gaps: GPUs that are free, but not for long enough or not large enough for a job that runs as it likes.

The last minutes before an owner's calendar, a machine that is kept until a gang begins, what was promised to
a wide job until that begins, and cards with less memory than was asked for where less was seen to be needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.window import Award, Subjob, WindowEnd
from gpunion.domain.nodes.node_view import NodeView
from gpunion.engine.coordinator.capacity import view
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning import accounts, placement
from gpunion.engine.coordinator.planning.clearing import turns
from gpunion.engine.coordinator.planning.clearing.fitting import Fit, Fitting, Offer
from gpunion.engine.coordinator.planning.reservations import Kept
from gpunion.engine.coordinator.runs import gang_members as gangs
from gpunion.engine.coordinator.windows import ends, promises
from gpunion.policy.placement.filters import refusal
from gpunion.policy.placement.pick import Placed, grant
from gpunion.policy.windows.clearing import BIDDERS_MOST, WINDOWS_MOST, clear
from gpunion.policy.windows.gaps import may_be_offered, window_over
from gpunion.policy.windows.policy import WindowPolicy
from gpunion.policy.windows.sizing import GUARD_S, memory_bytes


def offer(draft: Draft, waiting: Sequence[Job], kept: Kept) -> None:
    """After everybody had their chance of a place for as long as they like."""
    policy = draft.policies.windows
    if policy is None or not policy.gaps or not any(job.spec.atomizable for job in waiting):
        return
    found = [*gaps(draft, kept)]
    fits = _bidders(draft, waiting, found, policy) if found else []
    if not fits:
        return
    chosen = {index: at for at, index in enumerate(_chosen(fits))}
    found = [found[index] for index in chosen]
    cleared = clear(
        [gap.window for gap in found],
        [replace(fit.bidder, only=frozenset(_renamed(fit, chosen))) for fit in fits],
        clearing=policy.clearing,
        weights=policy.weights,
        bounds=policy.bounds,
        rate=turns.RATE,
    )
    begun = [
        _begin(draft, draft.state.jobs[award.job_id], found[award.window], award) for award in cleared.awards
    ]
    if not all(begun) and any(begun):
        offer(draft, waiting, kept)  # what one could not have is offered to the others


def _bidders(draft: Draft, waiting: Sequence[Job], found: Sequence[Offer], policy: WindowPolicy) -> list[Fit]:
    """The first in the queue who have a piece for any of them."""
    windows = [gap.window for gap in found]
    fitting, fits = Fitting(draft, found, policy, lambda _: windows), list[Fit]()
    for job in waiting:
        if not turns.bids(draft, job) or job.spec.request.gpus != 1:
            continue
        fit = fitting.of(job, as_learned(job, policy))
        if fit is not None and accounts.held_back(draft, job) is None:
            fits.append(fit)
        if len(fits) == BIDDERS_MOST:
            break
    return fits


def _chosen(fits: Sequence[Fit]) -> list[int]:
    """The windows that are cleared: each bidder in turn names one that it has a piece for."""
    chosen: set[int] = set()
    naming = [iter(fit.bids_on) for fit in fits]
    while naming and len(chosen) < WINDOWS_MOST:
        for one in [*naming]:
            new = next((index for index in one if index not in chosen), None)
            if new is None:
                naming.remove(one)
            elif len(chosen) < WINDOWS_MOST:
                chosen.add(new)
    return sorted(chosen)


def _renamed(fit: Fit, chosen: Mapping[int, int]) -> Iterator[int]:
    return (chosen[index] for index in fit.bidder.only or () if index in chosen)


def gaps(draft: Draft, kept: Kept) -> Iterator[Offer]:
    """One for each GPU that is free for a while."""
    for node in draft.state.nodes.values():
        here = view(draft, node.id)
        if not may_be_offered(here):
            continue
        starts_s = kept.until_s(node.id)
        if here.free_gpus and (starts_s is None or starts_s > draft.now_s):
            open_here = replace(here, node=replace(node, known_end_s=None))
            for gpu in here.free_gpus:
                end = WindowEnd.GANG
                window = window_over(node, (gpu,), draft.now_s, promised_s=starts_s, promised=end)
                free = replace(open_here, free_gpus=(gpu,))
                yield Offer(window=window, here=free, begins_s=draft.now_s)
        yield from _until_promised(draft, here)


def _until_promised(draft: Draft, here: NodeView) -> Iterator[Offer]:
    """What was promised to a wide job or a gang and nobody has any more: until the last of its tenants has
    gone."""
    node = here.node
    held = {index for run in placement.living(draft, node.id) for index in run.held_gpus}
    held |= {gpu.index for gpu in node.withheld}
    for job in promises.on(draft, node.id):
        promised = job.promised
        if promised is None or not promises.stays(job) or _begins_now(draft, job):
            continue
        end = WindowEnd.PROMISED if job.spec.seat is None else WindowEnd.GANG
        for gpu in node.facts.lent_gpus:
            if gpu.index in promised.gpus and gpu.index not in held:
                window = window_over(node, (gpu,), draft.now_s, promised_s=promised.by_s, promised=end)
                free = replace(here, node=replace(node, known_end_s=None), free_gpus=(gpu,))
                yield Offer(window=window, here=free, begins_s=draft.now_s)


def _begins_now(draft: Draft, job: Job) -> bool:
    """All of its promise is free, and so is that of every other of its gang."""
    kept = (one.promised for one in gangs.members(draft, job))
    return all(one is not None and promises.is_free(draft, one) for one in kept)


def as_learned(job: Job, policy: WindowPolicy) -> Job:
    """With the memory that it was seen to need in the place of what it asked for."""
    request = job.spec.request
    learned = job.spec.windows.learned_vram and policy.learned_memory
    needs_bytes = memory_bytes(job.profile or ends.UNKNOWN, request.vram_bytes, learned=learned)
    if needs_bytes == request.vram_bytes:
        return job
    return replace(job, spec=replace(job.spec, request=replace(request, vram_bytes=needs_bytes)))


def _begin(draft: Draft, job: Job, gap: Offer, award: Award) -> bool:
    """Not where those who began just before it have used up its quota, or what else it needs of the
    machine."""
    policy = draft.policies.windows
    assert policy is not None
    window, variant = gap.window, award.variant
    if accounts.held_back(draft, job) is not None:
        return False
    if refusal(as_learned(job, policy), _as_left(draft, gap), draft.now_s) is not None:
        return False
    pieces = 0 if job.profile is None else job.profile.pieces
    subjob = Subjob(
        ends_s=window.ends_s,
        hard=window.end.hard,
        end=window.end,
        steps=variant.steps,
        length_s=variant.length_s,
        vram_bytes=variant.vram_bytes,
        number=pieces + 1,
        save_s=ends.sizing_for(job).save_s + GUARD_S,
        safe_every=job.spec.windows.safe_every,
        limit_bytes=window.vram_bytes if window.vram_bytes < job.spec.request.vram_bytes else 0,
    )
    gpus = tuple(gpu for gpu in gap.here.free_gpus if gpu.index in window.gpus)
    found = Placed(
        node_id=window.node_id,
        grant=grant(job, gpus),
        because=f"a window that ends: {ends.BECAUSE[window.end]}",
        verdicts=(),
    )
    placement.start(draft, job, found, subjob)
    return True


def _as_left(draft: Draft, gap: Offer) -> NodeView:
    """By those who began there in this pass."""
    held = {index for run in placement.living(draft, gap.window.node_id) for index in run.held_gpus}
    left = view(draft, gap.window.node_id)
    return replace(
        gap.here,
        free_gpus=tuple(gpu for gpu in gap.here.free_gpus if gpu.index not in held),
        free_cpus=left.free_cpus,
        free_memory_bytes=left.free_memory_bytes,
        guests=left.guests,
    )
