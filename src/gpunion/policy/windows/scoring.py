"""What is a piece worth? Half of it is the job's, half the campus's.

Scores alone favour tiny pieces, so what is cleared is the score times the seconds of work, on each GPU and at
the reference speed, and the rest of the window at what such seconds were worth lately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.window import Variant, Window
from gpunion.policy.deadline import behind_s
from gpunion.policy.windows.bidding import Bidder
from gpunion.policy.windows.turns import TurnBounds, turn_s

# Who has waited this long is as old as can be; it is first in any case then.
PATIENCE_S = 4 * 3600.0
# An account that is this far from the median, or twice as far as the others are, is as far as can be.
STANDING_LEAST = 3600.0
# Of a piece that an owner cuts short, what its saves have kept.
KEPT_OF_A_CUT = 0.5
# A newcomer must be worth more than the tenant by this: else two would change places every turn.
TENANT_MARGIN = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Each of the two halves sums to one."""

    name: str
    of_the_job: float  # the other half is the campus's
    finishes: float
    behind: float
    warm: float
    share: float
    age: float
    hunger: float
    fit: float
    stays: float


FAIR = Weights(
    name="fair",
    of_the_job=0.5,
    finishes=0.4,
    behind=0.3,
    warm=0.3,
    share=0.2,
    age=0.2,
    hunger=0.4,
    fit=0.1,
    stays=0.1,
)
EFFICIENT = Weights(
    name="efficient",
    of_the_job=0.2,
    finishes=0.4,
    behind=0.2,
    warm=0.4,
    share=0.1,
    age=0.1,
    hunger=0.2,
    fit=0.5,
    stays=0.1,
)
DEADLINES = Weights(
    name="deadlines",
    of_the_job=0.5,
    finishes=0.15,
    behind=0.7,
    warm=0.15,
    share=0.2,
    age=0.2,
    hunger=0.4,
    fit=0.1,
    stays=0.1,
)
WEIGHTS = {weights.name: weights for weights in (FAIR, EFFICIENT, DEADLINES)}


def behind(job: Job, now_s: float) -> float:
    """How far below the line to its deadline, as a part of all its work."""
    late_s = behind_s(job, now_s)
    return min(1.0, late_s / job.spec.expected_s) if job.spec.expected_s and late_s > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """All who bid in one clearing, as far as each is measured against the others."""

    standing: float
    spread: float
    job_value: float
    turn_s: float  # who has had one is half as hungry as who never ran

    @classmethod
    def of(cls, bidders: Sequence[Bidder], weights: Weights, bounds: TurnBounds) -> Field:
        standings = [bidder.standing for bidder in bidders]
        middle = median(standings)
        spread = max(STANDING_LEAST, 2 * fmean(abs(one - middle) for one in standings))
        values = [_job_value(bidder, weights, finishes=False, warm=bool(bidder.warm)) for bidder in bidders]
        turn = median(turn_s(bidder.sizing, bounds) for bidder in bidders)
        return cls(standing=middle, spread=spread, job_value=fmean(values), turn_s=turn)


def worth(
    bidder: Bidder, window: Window, variant: Variant, *, field: Field, weights: Weights, rate: float
) -> float:
    """Reference GPU-seconds times a score; never negative."""
    kept = window.stays + (1 - window.stays) * KEPT_OF_A_CUT
    useful = variant.useful_s * window.speed * bidder.gpus * kept
    worth = score(bidder, window, variant, field=field, weights=weights) * useful
    worth += rate * _rest_gpu_s(bidder, window, variant)
    return worth * TENANT_MARGIN if bidder.incumbent == variant.window else worth


def score(bidder: Bidder, window: Window, variant: Variant, *, field: Field, weights: Weights) -> float:
    """In [0, 1]. A tenant's place is warm, which counts already: coming up costs it nothing."""
    warm = bidder.incumbent is None and window.node_id in bidder.warm
    said = _job_value(bidder, weights, finishes=variant.finishes, warm=warm)
    believed = bidder.rho * said + (1 - bidder.rho) * field.job_value
    campus = _campus_value(bidder, window, field, weights)
    return weights.of_the_job * believed + (1 - weights.of_the_job) * campus


def _job_value(bidder: Bidder, weights: Weights, *, finishes: bool, warm: bool) -> float:
    return weights.finishes * finishes + weights.behind * bidder.behind + weights.warm * warm


def _campus_value(bidder: Bidder, window: Window, field: Field, weights: Weights) -> float:
    ahead = (bidder.standing - field.standing) / field.spread
    gpus = bidder.gpus / len(window.gpus) if window.gpus else 1.0
    memory = bidder.vram_bytes / window.vram_bytes if window.vram_bytes and bidder.vram_bytes else 1.0
    return (
        weights.share * min(1.0, max(0.0, 0.5 - 0.5 * ahead))
        + weights.age * min(1.0, bidder.waited_s / PATIENCE_S)
        + weights.hunger * field.turn_s / (field.turn_s + bidder.served_s / bidder.gpus)
        + weights.fit * gpus * min(1.0, memory)
        + weights.stays * window.stays
    )


def _rest_gpu_s(bidder: Bidder, window: Window, variant: Variant) -> float:
    """What is left beside and after it, if that is still worth an offer."""
    if window.length_s is None:
        return 0.0
    beside = (len(window.gpus) - bidder.gpus) * window.length_s
    rest_s = window.length_s - variant.length_s
    after = bidder.gpus * rest_s if rest_s >= bidder.shortest_s else 0.0
    return window.speed * (beside + after)
