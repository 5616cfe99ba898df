"""Who gets which window? The bids whose worth is largest in all, each window and each job once.

What begins now is an assignment, and `policy/assignment` solves it exactly. A higher class is cleared before
a lower one, and within a class whoever lost often or waited long before all others, so that nobody loses for
ever. Baselines for comparison are in `simpler_clearings`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from gpunion.domain.ids import JobId
from gpunion.domain.jobs.window import Award, Variant, Window
from gpunion.domain.ties import tie_break
from gpunion.policy.assignment import cheapest
from gpunion.policy.windows.bidding import Bidder, variants
from gpunion.policy.windows.scoring import PATIENCE_S, Field, Weights, worth
from gpunion.policy.windows.turns import TurnBounds

# Of one pass: exact clearing is cubic. What is left over is cleared by the next pass, at once.
WINDOWS_MOST, BIDDERS_MOST = 32, 64
# After so many clearings lost in a row it is first. One is counted a turn, however often it bids meanwhile.
LOST_MOST = 20
# What a GPU-second of windows was worth fades by this from clearing to clearing.
_RATE_FADE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid:
    bidder: Bidder
    variant: Variant
    worth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    awards: tuple[Award, ...] = ()
    bids: tuple[Bid, ...] = ()
    lost: tuple[JobId, ...] = ()  # who bid and got nothing; tenants are told that by their turn
    worth_per_gpu_s: float | None = None  # of what was awarded

    @property
    def silent(self) -> bool:
        return not self.bids


Choose = Callable[[Sequence[int], Sequence[Bid]], Sequence[Bid]]


class Clearing(Protocol):
    name: str

    def choose(self, windows: Sequence[int], bids: Sequence[Bid]) -> Sequence[Bid]:
        """Of one class, nobody of whom has to go first. Bids come in the order of the queue."""
        ...


class Exact:
    name = "exact"

    def choose(self, windows: Sequence[int], bids: Sequence[Bid]) -> Sequence[Bid]:
        best = best_of_each(bids)
        jobs = list(dict.fromkeys(bid.variant.job_id for bid in bids))
        # A column of its own for every window, so that it may stay empty.
        empty = [0.0] * len(windows)
        costs = [
            [-best[job, window].worth if (job, window) in best else inf for job in jobs] + empty
            for window in windows
        ]
        pairs = zip(windows, cheapest(costs), strict=True)
        won = [(window, jobs[at]) for window, at in pairs if at is not None and at < len(jobs)]
        return [best[job, window] for window, job in won]


def best_of_each(bids: Sequence[Bid]) -> dict[tuple[JobId, int], Bid]:
    """Each job's best piece in each window; of equals the longest."""
    best: dict[tuple[JobId, int], Bid] = {}
    for bid in bids:
        pair = (bid.variant.job_id, bid.variant.window)
        if pair not in best or _rank(bid) > _rank(best[pair]):
            best[pair] = bid
    return best


def _rank(bid: Bid) -> tuple[float, float]:
    return (bid.worth, bid.variant.useful_s)


def clear(
    windows: Sequence[Window],
    bidders: Sequence[Bidder],
    *,
    clearing: Clearing,
    weights: Weights,
    bounds: TurnBounds,
    rate: float,
) -> Cleared:
    """`bidders` in the order of the queue, at most `BIDDERS_MOST`; at most `WINDOWS_MOST` windows. Who is of
    equal worth is told apart by names, not by the order that bidders come in."""
    if not windows or not bidders:
        return Cleared()
    field = Field.of(bidders, weights, bounds)
    bids = [
        Bid(
            bidder=one,
            variant=variant,
            worth=worth(one, windows[variant.window], variant, field=field, weights=weights, rate=rate),
        )
        for one in bidders
        for index, window in enumerate(windows)
        for variant in variants(one, index, window, bounds)
    ]
    won: list[Bid] = []
    for group in _in_classes(bids):
        _clear_class(group, won, clearing, bounds)
    return _result(windows, bidders, bids, won)


def _in_classes(bids: Sequence[Bid]) -> list[list[Bid]]:
    classes = sorted({bid.bidder.priority for bid in bids}, reverse=True)
    return [[bid for bid in bids if bid.bidder.priority == one] for one in classes]


def _clear_class(bids: Sequence[Bid], won: list[Bid], clearing: Clearing, bounds: TurnBounds) -> None:
    """What those of one class win of the windows that are left."""
    first = dict.fromkeys(
        bid.variant.job_id
        for bid in bids
        if bid.bidder.incumbent is None and starved(bid.bidder.waited_s, bounds)
    )
    for job_id in first:
        its = [bid for bid in _open(bids, won) if bid.variant.job_id == job_id]
        if its:
            won.append(max(its, key=_rank))
    free = _open(bids, won)
    if free:
        won += clearing.choose(sorted({bid.variant.window for bid in free}), sorted(free, key=_tie))


def _open(bids: Sequence[Bid], won: Sequence[Bid]) -> list[Bid]:
    """Without the windows that are taken, and the jobs that have one."""
    windows, jobs = {bid.variant.window for bid in won}, {bid.variant.job_id for bid in won}
    return [bid for bid in bids if bid.variant.window not in windows and bid.variant.job_id not in jobs]


def starved(waited_s: float, bounds: TurnBounds) -> bool:
    return waited_s >= min(PATIENCE_S, LOST_MOST * bounds.least_s)


def urgency(waited_s: float, served_gpu_s: float, bounds: TurnBounds) -> tuple[float, float]:
    """Of the many that wait, who is among those that bid: the starved, who waited longest first; then whoever
    was served least."""
    if starved(waited_s, bounds):
        return (-waited_s, 0.0)
    return (0.0, served_gpu_s - waited_s / LOST_MOST)


def _tie(bid: Bid) -> tuple[int, int]:
    return (tie_break("clearing", bid.variant.job_id), bid.variant.window)


def _result(
    windows: Sequence[Window], bidders: Sequence[Bidder], bids: Sequence[Bid], won: Sequence[Bid]
) -> Cleared:
    winners = {bid.variant.job_id for bid in won}
    tried = {bid.variant.job_id for bid in bids if bid.bidder.incumbent is None}
    gpu_s = sum(bid.variant.length_s * bid.bidder.gpus * windows[bid.variant.window].speed for bid in won)
    return Cleared(
        awards=tuple(
            Award(job_id=bid.variant.job_id, window=bid.variant.window, variant=bid.variant)
            for bid in sorted(won, key=lambda one: one.variant.window)
        ),
        bids=tuple(bids),
        lost=tuple(one.job_id for one in bidders if one.job_id in tried - winners),
        worth_per_gpu_s=sum(bid.worth for bid in won) / gpu_s if gpu_s > 0 else None,
    )


def smoothed(rate: float, worth_per_gpu_s: float | None) -> float:
    """What a GPU-second of windows has been worth lately."""
    if worth_per_gpu_s is None:
        return rate
    return worth_per_gpu_s if rate <= 0 else (1 - _RATE_FADE) * rate + _RATE_FADE * worth_per_gpu_s
