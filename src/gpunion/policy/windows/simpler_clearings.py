"""Other answers to who gets which window, to compare the exact one with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpunion.policy.windows.clearing import Bid, Clearing, Exact


class InTurn:
    """First come, first served: each in turn takes its best window."""

    name = "in-turn"

    def choose(self, windows: Sequence[int], bids: Sequence[Bid]) -> Sequence[Bid]:
        waiting = sorted(bids, key=lambda bid: (-bid.bidder.waited_s, -bid.worth))
        return _greedily(waiting)


class Densest:
    """Whatever is worth most for each second of its window."""

    name = "densest"

    def choose(self, windows: Sequence[int], bids: Sequence[Bid]) -> Sequence[Bid]:
        return _greedily(sorted(bids, key=lambda bid: -bid.worth / max(bid.variant.length_s, 1e-9)))


class Stack:
    """Two passes over the bids by when they end (Berman and DasGupta): half of the best at least.

    The first keeps a bid that is worth more than what it conflicts with among those kept before; the second
    takes them from the last one back, as far as they go together.
    """

    name = "stack"

    def choose(self, windows: Sequence[int], bids: Sequence[Bid]) -> Sequence[Bid]:
        kept: list[tuple[Bid, float]] = []
        for bid in sorted(bids, key=lambda one: one.variant.length_s):
            more = bid.worth - sum(worth for one, worth in kept if _conflict(one, bid))
            if more > 0:
                kept.append((bid, more))
        return _greedily(bid for bid, _ in reversed(kept))


def _greedily(bids: Iterable[Bid]) -> list[Bid]:
    won: list[Bid] = []
    for bid in bids:
        if not any(_conflict(one, bid) for one in won):
            won.append(bid)
    return won


def _conflict(one: Bid, other: Bid) -> bool:
    return one.variant.window == other.variant.window or one.variant.job_id == other.variant.job_id


# By the word in a bundle or a report.
CLEARINGS: dict[str, Clearing] = {one.name: one for one in (Exact(), InTurn(), Stack(), Densest())}
