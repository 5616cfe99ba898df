"""Which of the windows on offer could a job that waits begin in?

Asked before anybody is counted among those that bid. Who could have none of them would keep others out:
of a long queue only the first may bid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.window import Window
from gpunion.domain.nodes.node_view import NodeView
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning import accounts
from gpunion.engine.coordinator.planning.clearing.bidders import bidder_of, left_s
from gpunion.engine.coordinator.planning.placement import asked
from gpunion.policy.placement.filters import ends_soon, has_room, refusal, suitable
from gpunion.policy.windows.bidding import Bidder, variants
from gpunion.policy.windows.clearing import WINDOWS_MOST
from gpunion.policy.windows.gaps import may_be_offered
from gpunion.policy.windows.policy import WindowPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    window: Window
    here: NodeView  # with its GPUs free, as it will be when somebody begins there
    begins_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    bidder: Bidder
    bids_on: tuple[int, ...]  # the first of the windows that it has a piece for


# The windows as they would be if this one had to come there.
WindowsFor = Callable[[Bidder], Sequence[Window]]


class Fitting:
    """Of one pass. Who asks for the same is answered once: thousands may wait."""

    def __init__(
        self,
        draft: Draft,
        offers: Sequence[Offer],
        policy: WindowPolicy,
        windows: WindowsFor,
        *,
        enough: int = WINDOWS_MOST,
    ):
        """`enough`: of the windows that somebody could have so many are named."""
        self._draft, self._policy, self._windows, self._enough = draft, policy, windows, enough
        self._shares = accounts.shares(draft)
        alike: dict[object, list[int]] = {}
        for index, offer in enumerate(offers):
            if may_be_offered(offer.here) and not ends_soon(offer.here.node, offer.begins_s):
                alike.setdefault(_kind(offer), []).append(index)
        self._groups = [(offers[group[0]].here, group) for group in alike.values()]
        self._large_enough: dict[object, list[tuple[NodeView, list[int]]]] = {}
        self._open: dict[object, frozenset[int]] = {}
        self._silent: set[object] = set()

    def of(self, job: Job, asks: Job) -> Fit | None:
        """`asks`: the job with what is asked of a window for it. None: it could have none of them."""
        open_to_it = self._open_to(asks)
        known = (open_to_it, job.profile, job.cost, job.spec.windows, left_s(self._draft, job, None))
        if not open_to_it or known in self._silent:
            return None
        bidder = bidder_of(self._draft, job, self._shares, only=open_to_it)
        bids_on = tuple(islice(self._bids_on(bidder, open_to_it), self._enough))
        if not bids_on:
            self._silent.add(known)
            return None
        return Fit(bidder=bidder, bids_on=bids_on)

    def _open_to(self, job: Job) -> frozenset[int]:
        """The windows that it would not be refused, whatever their length."""
        key = asked(job)
        if key not in self._open:
            now_s = self._draft.now_s
            groups = [group for here, group in self._large(job) if refusal(job, here, now_s) is None]
            self._open[key] = frozenset(index for group in groups for index in group)
        return self._open[key]

    def _large(self, job: Job) -> list[tuple[NodeView, list[int]]]:
        """First what is quick to see, and the same for everybody."""
        request = job.request
        if request not in self._large_enough:
            self._large_enough[request] = [
                (here, group)
                for here, group in self._groups
                if has_room(request, here) and len(suitable(here.free_gpus, request)) >= request.gpus
            ]
        return self._large_enough[request]

    def _bids_on(self, bidder: Bidder, open_to_it: frozenset[int]) -> Iterator[int]:
        windows = self._windows(bidder)
        for index in sorted(open_to_it):
            length_s = windows[index].length_s
            if length_s is not None and length_s < bidder.least_s:
                continue
            if variants(bidder, index, windows[index], self._policy.bounds):
                yield index


def _kind(offer: Offer) -> object:
    """Offers of which this is equal refuse the same jobs."""
    here = offer.here
    cards = tuple(replace(gpu, index=0) for gpu in here.free_gpus)
    return (here.node.id, here.node.known_end_s, cards, here.free_cpus, here.free_memory_bytes, here.guests)
