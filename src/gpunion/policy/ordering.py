"""Who is next among the waiting?"""

from __future__ import annotations

from typing import Protocol

from gpunion.domain.job import Job, JobPhase
from gpunion.domain.ties import tie_break

SortKey = tuple[int, int, float, int]


class Ordering(Protocol):
    def key(self, job: Job) -> SortKey:
        """Smaller goes first. Depends on nothing but the job, so that a queue can be kept sorted."""
        ...


class PriorityThenAge:
    """Priority classes; within one, work that was interrupted before work that never ran, then first come."""

    def key(self, job: Job) -> SortKey:
        interrupted = 0 if job.phase is JobPhase.MIGRATING else 1
        return (-int(job.spec.priority), interrupted, job.submitted_s, tie_break("ordering", job.id))
