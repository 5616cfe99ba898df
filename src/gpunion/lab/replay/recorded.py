"""What was recorded of a campus over some time, as far as running it again needs it. Values only.

Departures are known by lab and hour of the week, and by machine where its owner says so (`figures = "full"`):
of the others it is drawn anew which goes when.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpunion.domain.jobs.job import JobSpec
from gpunion.domain.nodes.node import NodeFacts, NodePhase

WEEK_HOURS = 168


@dataclass(frozen=True, slots=True, kw_only=True)
class PastJob:
    """`work_s`: at the reference card's speed; None: it never ran, so nobody knows."""

    spec: JobSpec
    submit_s: float  # after the beginning of the time; 0 for what was there before
    measured: bool  # whether its wait counts: it was handed in within the time
    gang: int = 1
    waited_s: float | None = None  # until it first ran; None: it did not
    work_s: float | None = None
    stop_s: float | None = None  # its user gave it up, before it had run


@dataclass(frozen=True, slots=True, kw_only=True)
class PastLab:
    """`open_share`: of the GPU-hours of its machines, those that guests could have."""

    name: str
    departures_by_hour: tuple[int, ...]  # of the week
    open_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PastMachine:
    """`phases`: since when it was in which, where its owner lets that be kept; None: nobody knows.
    `joined_s`: when it became part of the campus, after the beginning of the time."""

    name: str
    facts: NodeFacts
    joined_s: float = 0.0
    phases: tuple[tuple[float, NodePhase], ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    length_s: float
    counted_s: float  # how much of it departures were counted for
    began_hour: int  # of the week
    jobs: tuple[PastJob, ...]
    labs: tuple[PastLab, ...]
    machines: tuple[PastMachine, ...]
    left_out: int = 0  # older requests, that are not among the jobs

    def waits_s(self) -> list[float]:
        """As they were. Who never ran has waited at least so long."""
        return [
            self.length_s - job.submit_s if job.waited_s is None else job.waited_s
            for job in self.jobs
            if job.measured and job.stop_s is None
        ]
