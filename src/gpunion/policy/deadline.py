"""Is a job with a deadline falling behind? The Uniform Progress rule.

Draw a line from nothing at the submission to everything at the deadline. A job below the line is late: it
goes before others of its class and to machines that stay. A job above it takes its turn like everybody, so
that whoever names a deadline early gets no more than the deadline needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.domain.jobs.job import Job
from gpunion.domain.nodes.node_view import NodeView
from gpunion.domain.resources import Gpu
from gpunion.policy.hazard.constant import Survival
from gpunion.policy.placement.pick import Scoring

# Of the time a job could stand still and yet be done, this part passes before it counts as late: without it
# every job with a deadline would be late the moment it waits.
GRACE_SHARE = 0.1
# The fastest card of a campus is about twice the reference; what it could not do in time, nobody can.
FASTEST = 2.0
# Chances closer than this are the same to us, and the cheaper place wins.
SAFETY_STEP = 0.05
_SAFETY_WEIGHT = 1e9  # seconds; far above any expected loss
_LEAST_HORIZON_S = 60.0


def behind_s(job: Job, now_s: float) -> float:
    """Seconds of work below the line; not above zero where it is on time, has none, or cannot make it."""
    within_s, work_s = job.spec.finish_within_s, job.spec.expected_s
    if within_s is None or work_s is None:
        return 0.0
    done_s = work_s * _progress(job)
    left_s = job.submitted_s + within_s - now_s
    if left_s <= 0 or work_s - done_s > FASTEST * left_s:
        return 0.0
    line_s = work_s * (now_s - job.submitted_s) / within_s
    grace_s = GRACE_SHARE * max(0.0, within_s - work_s) * work_s / within_s
    return line_s - grace_s - done_s


def is_late(job: Job, now_s: float) -> bool:
    return job.spec.finish_within_s is not None and behind_s(job, now_s) > 0


def missed(job: Job, now_s: float) -> bool:
    """The deadline has passed, or is out of reach."""
    within_s, work_s = job.spec.finish_within_s, job.spec.expected_s
    if within_s is None or work_s is None:
        return False
    left_s = job.submitted_s + within_s - now_s
    return left_s <= 0 or work_s * (1 - _progress(job)) > FASTEST * left_s


def _progress(job: Job) -> float:
    return 0.0 if job.durable is None else job.durable.progress


@dataclass(frozen=True, slots=True, kw_only=True)
class SaferWhenLate:
    """A late job goes where it is likeliest to stay until it is done; everybody else as before."""

    usual: Scoring
    hazard: Survival

    def score(self, job: Job, view: NodeView, gpus: tuple[Gpu, ...], now_s: float) -> float:
        usual = self.usual.score(job, view, gpus, now_s)
        if not is_late(job, now_s):
            return usual
        speed = min((gpu.speed for gpu in gpus), default=1.0)
        work_s = (job.spec.expected_s or 0.0) * (1 - _progress(job))
        horizon_s = max(_LEAST_HORIZON_S, work_s / speed)
        stays = self.hazard.lower_survival(view.node, now_s, horizon_s)
        return _SAFETY_WEIGHT * round(stays / SAFETY_STEP) + usual

    def because(self, job: Job, view: NodeView, gpus: tuple[Gpu, ...]) -> str:
        return self.usual.because(job, view, gpus)
