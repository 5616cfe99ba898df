"""Whose state is worth copying ahead, and to where?

A job whose machine may be wanted back soon is likely to go to one of a few others. A copy of its newest
sealed state that lies there already need not be moved when it goes: only what it saved since. A copy costs
bytes on a wire that everybody uses, so it is made where the seconds it should save are worth them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log

from gpunion.domain.ids import NodeId
from gpunion.domain.jobs.job import Job
from gpunion.domain.nodes.node import Node
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.ties import tie_break
from gpunion.policy.expected_loss import HORIZON_MOST_S, ExpectedLoss, remaining_s
from gpunion.policy.placement.filters import has_room, refusal, suitable
from gpunion.policy.placement.pick import choose_gpus

SHORTLIST = 2
# How often a job that leaves goes to the first and to the second of its list. Places come and go: on the
# reference campus 16 of 108 went to the first and 11 to the second (docs/evaluation.md).
LIKELIHOOD = (0.15, 0.10)
# A copy of which more than this is another state's by now is fetched anew; a job that rewrites more than this
# from one save to the next is not copied at all: little of it would still count.
STALE_SHARE = 0.5
# No more than this many copies of a job are asked for within the time: machines that fill and empty would
# otherwise have its state carried to and fro.
ASKED_MOST, ASKED_WITHIN_S = 2, 3600.0
# The same machine is not asked for the same job's state again before this.
AGAIN_S = 1800.0
# Copies that are remembered, and kept on their machines, at once.
COPIES_MOST = 4
# Below it a restore is over in a moment anyway.
LEAST_BYTES = 64 * 1024**2

# What copies may use of a wire: so much of a node's own while they are made, of a building's over an hour.
NODE_SHARE = 0.1
BUILDING_SHARE, BUILDING_BPS, WINDOW_S = 0.02, 10e9, 3600.0
# GPU-seconds that a gigabyte must be expected to save while the building's wire is idle. The price grows with
# what copies have used of their share, so that the last of it is left to those who gain most: this many times
# the least price at the end of it (algorithms.md's λ, for wishes that come one by one and not all at once).
LEAST_GPU_S_PER_GB = 0.5
STEEPNESS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One copy that could be made."""

    node_id: NodeId
    move_bytes: int
    saves_gpu_s: float  # expected


@dataclass(frozen=True, slots=True, kw_only=True)
class PreStaging:
    loss: ExpectedLoss
    least_gpu_s_per_gb: float = LEAST_GPU_S_PER_GB

    def wants(self, job: Job, now_s: float) -> bool:
        """Quick: whether it is worth looking for places at all."""
        if not copyable(job) or rewritten_share(job) > STALE_SHARE:
            return False
        return sum(copy.asked_s > now_s - ASKED_WITHIN_S for copy in job.copies) < ASKED_MOST

    def may_pay(self, job: Job, source: Node, slowest_bps: float, now_s: float) -> bool:
        """False: a copy would pay nowhere, so that nobody need ask where it would go. What the likeliest
        place would gain if it had the slowest wire of all, against the least that an offer ever moves at the
        least price there ever is."""
        most_gpu_s = _saves_gpu_s(job, self._leaves(job, source, now_s), LIKELIHOOD[0], slowest_bps)
        size_bytes = 0 if job.durable is None else job.durable.size_bytes
        return most_gpu_s >= self.price(0.0) * STALE_SHARE * size_bytes

    def shortlist(
        self,
        job: Job,
        views: Sequence[NodeView],
        counted_on: Mapping[NodeId, int],
        *,
        leaving: NodeId,
        now_s: float,
    ) -> tuple[NodeId, ...]:
        """Where it would probably go, the likeliest first.

        `counted_on`: GPUs of a node that other jobs have on their own lists. Whoever comes first is not kept
        waiting for them; they only let others look elsewhere first.
        """
        request = job.request

        def rank(view: NodeView) -> tuple[bool, float, int]:
            node = view.node
            left = len(suitable(view.free_gpus, request)) - counted_on.get(node.id, 0)
            cost_s = self.loss.cost_s(job, node, choose_gpus(job, view), now_s)
            return left < request.gpus, cost_s, tie_break("shortlist", job.id, node.id)

        able = (v for v in views if v.node.id != leaving and has_room(request, v))
        ranked = sorted((v for v in able if refusal(job, v, now_s) is None), key=rank)
        return tuple(view.node.id for view in ranked[:SHORTLIST])

    def offers(self, job: Job, source: Node, places: Sequence[Node], now_s: float) -> list[Offer]:
        """The copies that are lacking, of a shortlist in its order."""
        leaves = self._leaves(job, source, now_s)
        found = []
        for place, likelihood in zip(places, LIKELIHOOD, strict=False):
            move_bytes = _worth_moving(job, place, now_s)
            if move_bytes:
                saves_gpu_s = _saves_gpu_s(job, leaves, likelihood, place.facts.lent_uplink_bps)
                found.append(Offer(node_id=place.id, move_bytes=move_bytes, saves_gpu_s=saves_gpu_s))
        return found

    def pays(self, offer: Offer, used_share: float) -> bool:
        """`used_share`: of what copies may use of the building's wire, what they have used lately, and this
        one would."""
        return offer.saves_gpu_s >= self.price(used_share) * offer.move_bytes

    def price(self, used_share: float) -> float:
        """GPU-seconds a byte has to save."""
        if used_share > 1.0:
            return inf
        return self.least_gpu_s_per_gb / 1e9 * exp(log(STEEPNESS) * max(0.0, used_share))

    def _leaves(self, job: Job, source: Node, now_s: float) -> float:
        """How likely it is driven out while a copy made now is still of use."""
        interval_s = self.loss.timing.interval_s(job, source, now_s)
        fresh_s = interval_s * STALE_SHARE / max(rewritten_share(job), 1e-3)
        return 1.0 - self.loss.hazard.survival(source, now_s, min(fresh_s, remaining_s(job), HORIZON_MOST_S))


def copyable(job: Job) -> bool:
    """There is something to copy, and it may lie where the job does not run. What a job with a key saved is
    readable only with it, and its key goes to nobody who does not run it."""
    durable = job.durable
    return durable is not None and durable.size_bytes >= LEAST_BYTES and not job.vault_key


def rewritten_share(job: Job) -> float:
    """Of its state, from one save to the next."""
    size_bytes = 0 if job.durable is None else job.durable.size_bytes
    return min(1.0, job.cost.ship_bytes / size_bytes) if size_bytes else 1.0


def kept_bytes(job: Job) -> float:
    """Of a copy, what is still the job's state when it leaves: one more save, and half of what a copy may
    change before it is made anew."""
    size_bytes = 0 if job.durable is None else job.durable.size_bytes
    return size_bytes * max(0.0, 1.0 - rewritten_share(job) - STALE_SHARE / 2)


def building_budget_bytes() -> float:
    return BUILDING_SHARE * BUILDING_BPS / 8.0 * WINDOW_S


def staging_rate_bps(node: Node) -> float:
    return NODE_SHARE * node.facts.lent_uplink_bps


def _saves_gpu_s(job: Job, leaves: float, likelihood: float, wire_bps: float) -> float:
    """Expected: what need not be fetched over the wire of the place, if it leaves, and goes there."""
    gained_s = 8.0 * kept_bytes(job) / max(wire_bps, 1.0)
    return leaves * likelihood * gained_s * max(1, job.spec.request.gpus)


def _worth_moving(job: Job, place: Node, now_s: float) -> int:
    """What a copy there lacks; 0 where it is fresh, or was asked for lately."""
    copy = job.copy_on(place.id)
    if copy is not None and copy.asked_s > now_s - AGAIN_S:
        return 0
    lacking = job.lacking_bytes(place.id)
    size_bytes = 0 if job.durable is None else job.durable.size_bytes
    return lacking if lacking > STALE_SHARE * size_bytes else 0
