"""When is the next checkpoint due?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Protocol

from gpunion.domain.jobs.job import Job
from gpunion.domain.nodes.node import Node
from gpunion.policy.hazard.constant import ConstantHazard, Hazard

# Saving more often than this costs more in requests than it can ever save.
LEAST_INTERVAL_S = 1.0
MOST_INTERVAL_S = 6 * 3600.0


class CheckpointTiming(Protocol):
    def interval_s(self, job: Job, node: Node, now_s: float, company: Sequence[Job] = ()) -> float:
        """Seconds from the last checkpoint (or the start) to the next.

        `company`: the other jobs that run on the node and share its uplink.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedInterval:
    every_s: float = 1800.0

    def interval_s(self, job: Job, node: Node, now_s: float, company: Sequence[Job] = ()) -> float:
        return as_wished(job, self.every_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Young:
    """`tau = sqrt(2 c / h)` (Young 1974): the stall of saving against half an interval of lost work."""

    hazard: Hazard = field(default_factory=ConstantHazard)

    def interval_s(self, job: Job, node: Node, now_s: float, company: Sequence[Job] = ()) -> float:
        rate = self.hazard.rate_per_s(node, now_s)
        return as_wished(job, sqrt(2 * max(job.cost.stall_s, 0.01) / rate))


def as_wished(job: Job, interval_s: float) -> float:
    """Within what the job asks for and what is sensible for anybody."""
    wish = job.spec.checkpoint
    most_s = MOST_INTERVAL_S if wish.max_interval_s is None else wish.max_interval_s
    return max(LEAST_INTERVAL_S, wish.min_interval_s, min(interval_s, most_s))
