"""Who was promised a place will hold it, so it counts for quotas before that."""

from __future__ import annotations

from gpunion.domain.jobs.job import Job
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning.accounts import Books
from gpunion.engine.coordinator.windows import promises


def books(draft: Draft) -> Books:
    """For whoever is to be promised the next one."""
    found = Books(draft)
    for job in _in_order(draft):
        found.count(job)
    return found


def give_up(draft: Draft) -> None:
    """What its user may not have any more: a tenant would go, and nobody could come."""
    known = Books(draft)
    for job in _in_order(draft):
        over = known.held_back(job)
        if over is None:
            known.count(job)
        else:
            promises.drop(draft, job)
            draft.add_reason(over)


def _in_order(draft: Draft) -> list[Job]:
    """Whoever was promised a place, first who is to begin first."""
    found = [job for node_id in draft.state.promised for job in promises.on(draft, node_id)]
    return sorted(found, key=lambda job: (0.0 if job.promised is None else job.promised.by_s, job.id))
