"""Which windows there are at this moment, for people: who has them, when they end and why, who bids.

Nothing is decided: the draft it is asked with is thrown away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.run import Run
from gpunion.domain.jobs.window import Variant, Window, WindowEnd
from gpunion.engine.coordinator.capacity import view
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning import accounts, placement
from gpunion.engine.coordinator.planning.clearing import gaps, turns
from gpunion.engine.coordinator.planning.clearing.bidders import bidder_of
from gpunion.engine.coordinator.planning.clearing.fitting import Offer
from gpunion.engine.coordinator.planning.preemption import without
from gpunion.engine.coordinator.windows import promises
from gpunion.policy.placement.filters import refusal
from gpunion.policy.windows.bidding import variants
from gpunion.policy.windows.clearing import BIDDERS_MOST
from gpunion.policy.windows.policy import WindowPolicy

# Of each window so many bids are shown, the longest first.
BIDS_SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownWindow:
    node_id: NodeId
    gpus: tuple[int, ...]
    ends_s: float | None
    end: WindowEnd
    tenant: JobId | None = None  # None: it is free
    turn_over_s: float | None = None  # from then on its place may be cleared again
    promised: JobId | None = None  # who has it next
    bids: tuple[Variant, ...] = ()
    unused_because: str = ""


def windows(draft: Draft) -> tuple[ShownWindow, ...]:
    policy = draft.policies.windows
    if policy is None:
        return ()
    waiting, kept = placement.place_waiting(draft)
    able = [job for job in waiting if turns.bids(draft, job)][:BIDDERS_MOST]
    runs = [draft.state.runs[run_id] for run_id in sorted(draft.state.in_windows)]
    held = [_of_tenant(draft, run, able, policy) for run in runs]
    return (*held, *_free(draft, [*gaps.gaps(draft, kept)], able, policy))


def _of_tenant(draft: Draft, run: Run, waiting: list[Job], policy: WindowPolicy) -> ShownWindow:
    assert run.subjob is not None
    stays = turns.may_be_cleared(draft, run) and policy.turns
    return ShownWindow(
        node_id=run.node_id,
        gpus=run.held_gpus,
        ends_s=run.subjob.ends_s,
        end=run.subjob.end,
        tenant=run.job_id,
        turn_over_s=turns.turn_ends_s(draft, run, policy) if stays else None,
        promised=_promised_to(draft, run),
        bids=_bids_on_its_place(draft, run, waiting, policy) if stays else (),
    )


def _promised_to(draft: Draft, run: Run) -> JobId | None:
    for job in promises.on(draft, run.node_id):
        if job.promised is not None and not set(job.promised.gpus).isdisjoint(run.held_gpus):
            return job.id
    return None


def _bids_on_its_place(
    draft: Draft, run: Run, waiting: list[Job], policy: WindowPolicy
) -> tuple[Variant, ...]:
    place = without(view(draft, run.node_id), draft, frozenset((run.id,)))
    able = [job for job in waiting if refusal(job, place, draft.now_s) is None]
    shares = accounts.shares(draft)
    room_s = max((turns.room_to_come_s(bidder_of(draft, job, shares)) for job in able), default=0.0)
    return _bids(draft, able, turns.window_of(draft, run, policy, room_s), policy)


def _free(
    draft: Draft, found: list[Offer], waiting: list[Job], policy: WindowPolicy
) -> Iterator[ShownWindow]:
    for gap in found:
        fits = [
            job for job in waiting if refusal(gaps.as_learned(job, policy), gap.here, draft.now_s) is None
        ]
        bids = _bids(draft, fits, gap.window, policy)
        yield ShownWindow(
            node_id=gap.window.node_id,
            gpus=gap.window.gpus,
            ends_s=gap.window.ends_s,
            end=gap.window.end,
            bids=bids,
            unused_because=_why_unused(waiting, fits, bids),
        )


def _why_unused(waiting: list[Job], fits: list[Job], bids: tuple[Variant, ...]) -> str:
    if not waiting:
        return "nobody waits who runs in windows"
    if not fits:
        return "none of those who wait could run there"
    return "" if bids else "it is too short for all who could run there"


def _bids(draft: Draft, jobs: list[Job], window: Window, policy: WindowPolicy) -> tuple[Variant, ...]:
    shares = accounts.shares(draft)
    found = [
        variant
        for job in jobs
        for variant in variants(bidder_of(draft, job, shares), 0, window, policy.bounds)[:1]
    ]
    return tuple(sorted(found, key=lambda one: (-one.useful_s, one.job_id))[:BIDS_SHOWN])
