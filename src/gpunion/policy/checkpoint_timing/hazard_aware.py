"""The next checkpoint from a hazard that changes by the hour: alone, or with those who share the uplink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, sqrt

from gpunion.domain.jobs.job import Job
from gpunion.domain.nodes.node import Node
from gpunion.policy.bandwidth import reclaim_cap_bps
from gpunion.policy.checkpoint_timing.interval import MOST_INTERVAL_S, as_wished
from gpunion.policy.checkpoint_timing.joint import LEAST_STALL_S, Saver, price_of_a_byte, unpriced_bytes_per_s
from gpunion.policy.checkpoint_timing.notices import NoticeBook
from gpunion.policy.hazard.constant import ConstantHazard, Hazard
from gpunion.policy.reclaim import GUARD_S, GUARD_SHARE

# How much of what notice should save is believed. Counted in full it makes intervals so long that departures
# nobody announced cost more than the saves left out; not counted at all, the saves cost more than they save.
# Lost and stood still together are least between a quarter and a half (docs/evaluation.md).
NOTICE_CREDIT = 0.4

# The hazard is taken as constant for this long: an hour of the week has one rate, ages a few.
STRIDE_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HazardAware:
    """Density `sqrt(u(t) / 2 c)`: the next save is due where its integral since the last reaches one
    (Ling, Mi and Lin 2001). `u` counts only departures after which the last save would not be there.

    `coupled`: bytes have a price where the jobs on one uplink would send more than its share allows.
    """

    hazard: Hazard = field(default_factory=ConstantHazard)
    notices: NoticeBook = field(default_factory=NoticeBook)
    counts_notice: bool = True
    notice_credit: float = NOTICE_CREDIT
    coupled: bool = True

    def interval_s(self, job: Job, node: Node, now_s: float, company: Sequence[Job] = ()) -> float:
        stall_s = max(job.cost.stall_s, LEAST_STALL_S)
        rate_now_per_s = self.hazard.rate_per_s(node, now_s)
        cap_bps = reclaim_cap_bps(node.facts.lent_uplink_bps)
        if self.coupled:
            price = self._price(job, node, rate_now_per_s, company, cap_bps)
            if price == inf:
                return as_wished(job, MOST_INTERVAL_S)
            if price > 0.0:
                stall_s += price * job.cost.ship_bytes / _weight(job)
        lost_share = 1.0 - self._saved_share(job, node, company, cap_bps)
        return as_wished(job, self._until_one(node, now_s, rate_now_per_s, stall_s, lost_share))

    def _until_one(
        self, node: Node, now_s: float, rate_now_per_s: float, stall_s: float, lost_share: float
    ) -> float:
        passed_s, integral, rate_per_s = 0.0, 0.0, rate_now_per_s
        while passed_s < MOST_INTERVAL_S:
            density = sqrt(rate_per_s * lost_share / (2 * stall_s))
            if integral + density * STRIDE_S >= 1.0:
                return passed_s + (1.0 - integral) / density
            integral += density * STRIDE_S
            passed_s += STRIDE_S
            rate_per_s = self.hazard.rate_per_s(node, now_s + passed_s)
        return MOST_INTERVAL_S

    def _price(
        self, job: Job, node: Node, rate_per_s: float, company: Sequence[Job], cap_bps: float
    ) -> float:
        everybody = (job, *company)
        budget_bytes_per_s = cap_bps / 8.0
        # If all fit even when no notice helps anybody, they fit; nearly always, and quickly seen.
        most_bytes_per_s = 0.0
        for one in everybody:
            most_bytes_per_s += unpriced_bytes_per_s(one.cost.stall_s, one.cost.ship_bytes, rate_per_s)
        if most_bytes_per_s <= budget_bytes_per_s:
            return 0.0
        lost = [1.0 - self._saved_share(one, node, everybody, cap_bps) for one in everybody]
        savers = [_saver(one, rate_per_s * share) for one, share in zip(everybody, lost, strict=True)]
        return price_of_a_byte(savers, budget_bytes_per_s)

    def _saved_share(self, job: Job, node: Node, company: Sequence[Job], cap_bps: float) -> float:
        """Of the departures, those announced so early that this job and its company can all be flushed."""
        if not self.counts_notice:
            return 0.0
        ship_bytes, stall_s = job.cost.ship_bytes, job.cost.save_s
        for one in company:
            if one.id != job.id:
                ship_bytes += one.cost.ship_bytes
                stall_s = max(stall_s, one.cost.save_s)
        bits = 8.0 * ship_bytes
        needs_s = (stall_s + bits / max(cap_bps, 1.0) + GUARD_S) / (1.0 - GUARD_SHARE)
        return self.notice_credit * self.notices.chance_in_time(needs_s, node.facts.terms.notice_s)


def _saver(job: Job, loss_rate_per_s: float) -> Saver:
    return Saver(
        weight=_weight(job),
        stall_s=job.cost.stall_s,
        ship_bytes=float(job.cost.ship_bytes),
        loss_rate_per_s=loss_rate_per_s,
    )


def _weight(job: Job) -> float:
    return max(1, job.spec.request.gpus) * (1.0 + job.spec.priority)
