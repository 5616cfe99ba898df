"""Which windows there are at this moment, for people: who has them, when they end and why, who bids.

Nothing is decided: the draft it is asked with is thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpunion.domain.ids import JobId, NodeId
from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.run import Run
from gpunion.domain.jobs.window import Variant, Window, WindowEnd
from gpunion.domain.nodes.node_view import NodeView
from gpunion.engine.coordinator.capacity import view
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning import accounts, placement
from gpunion.engine.coordinator.planning.clearing import gaps, turns
from gpunion.engine.coordinator.planning.clearing.bidders import bidder_of
from gpunion.engine.coordinator.planning.clearing.fitting import Offer
from gpunion.engine.coordinator.planning.preemption import without
from gpunion.engine.coordinator.windows import promises
from gpunion.policy.placement.filters import refusal
from gpunion.policy.windows.bidding import Bidder, variants
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
    bids = _Bids(draft, [job for job in waiting if turns.bids(draft, job)][:BIDDERS_MOST], policy)
    runs = [draft.state.runs[run_id] for run_id in sorted(draft.state.in_windows)]
    held = [_of_tenant(draft, run, bids, policy) for run in runs]
    return (*held, *(_free(gap, bids) for gap in gaps.gaps(draft, kept)))


class _Bids:
    """Of the first who wait, for any window. What many windows have in common is worked out once: whoever
    asks for the same is refused alike, and bids alike for windows that are."""

    def __init__(self, draft: Draft, waiting: Sequence[Job], policy: WindowPolicy):
        shares = accounts.shares(draft)
        self._draft, self._policy = draft, policy
        bidders = [bidder_of(draft, job, shares) for job in waiting]
        learned = [gaps.as_learned(job, policy) for job in waiting]
        self.none = not waiting
        self._for_turns = [*zip(map(placement.asked, waiting), waiting, bidders, strict=True)]
        self._for_gaps = [*zip(map(placement.asked, learned), learned, bidders, strict=True)]
        self._pieces: dict[object, tuple[Variant, ...]] = {}

    def who_fits_turn(self, place: NodeView) -> list[Bidder]:
        return self._who_fits(self._for_turns, place)

    def who_fits_gap(self, place: NodeView) -> list[Bidder]:
        return self._who_fits(self._for_gaps, place)

    def _who_fits(self, asking: Sequence[tuple[object, Job, Bidder]], place: NodeView) -> list[Bidder]:
        refused: dict[object, bool] = {}
        found = []
        for key, job, bidder in asking:
            if key not in refused:
                refused[key] = refusal(job, place, self._draft.now_s) is not None
            if not refused[key]:
                found.append(bidder)
        return found

    def longest(self, fits: Sequence[Bidder], window: Window) -> tuple[Variant, ...]:
        alike = (window.length_s, window.vram_bytes, window.speed, len(window.gpus), window.stays)
        key = (alike, tuple(bidder.job_id for bidder in fits))
        if key not in self._pieces:
            found = [one for bidder in fits for one in variants(bidder, 0, window, self._policy.bounds)[:1]]
            found.sort(key=lambda one: (-one.useful_s, one.job_id))
            self._pieces[key] = tuple(found[:BIDS_SHOWN])
        return self._pieces[key]


def _of_tenant(draft: Draft, run: Run, bids: _Bids, policy: WindowPolicy) -> ShownWindow:
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
        bids=_bids_on_its_place(draft, run, bids, policy) if stays and not bids.none else (),
    )


def _promised_to(draft: Draft, run: Run) -> JobId | None:
    for job in promises.on(draft, run.node_id):
        if job.promised is not None and not set(job.promised.gpus).isdisjoint(run.held_gpus):
            return job.id
    return None


def _bids_on_its_place(draft: Draft, run: Run, bids: _Bids, policy: WindowPolicy) -> tuple[Variant, ...]:
    fits = bids.who_fits_turn(without(view(draft, run.node_id), draft, frozenset((run.id,))))
    room_s = max(map(turns.room_to_come_s, fits), default=0.0)
    return bids.longest(fits, turns.window_of(draft, run, policy, room_s))


def _free(gap: Offer, bids: _Bids) -> ShownWindow:
    fits = bids.who_fits_gap(gap.here)
    found = bids.longest(fits, gap.window)
    return ShownWindow(
        node_id=gap.window.node_id,
        gpus=gap.window.gpus,
        ends_s=gap.window.ends_s,
        end=gap.window.end,
        bids=found,
        unused_because="" if found else _why_unused(bids, fits),
    )


def _why_unused(bids: _Bids, fits: Sequence[Bidder]) -> str:
    if bids.none:
        return "nobody waits who runs in windows"
    if not fits:
        return "none of those who wait could run there"
    return "it is too short for all who could run there"
