"""What a waiting job asks of a node, said once for all jobs that ask the same.

Wishes are shared: what was found out about one holds for every job that has it, and they are told apart by
identity, which costs nothing, where comparing them field by field would cost most of a planning pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gpunion.domain.job import Job
from gpunion.domain.resources import Request
from gpunion.policy.ordering import Ordering, SortKey

# Different wishes known at a time; beyond it the memory starts again. A few kilobytes each.
WISHES_MOST = 4096


@dataclass(slots=True, eq=False)
class Wish:
    request: Request
    hopeless_at: int | None = None  # the state of the room (its version) in which no node would do


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """A waiting job with what follows from its record alone."""

    job: Job
    key: SortKey
    wish: Wish
    plain: bool  # nothing but a node that changed can help it: no refusal that wears off, no place kept


@dataclass(slots=True)
class Wishes:
    _wishes: dict[object, Wish] = field(default_factory=dict)
    _waiting: dict[str, Waiting] = field(default_factory=dict)

    def waiting(self, ordering: Ordering, job: Job) -> Waiting:
        """Remembered for as long as the job's record stays the same."""
        known = self._waiting.get(job.id)
        if known is None or known.job is not job:
            plain = not job.avoid and job.migration is None and job.dump is None
            known = Waiting(job=job, key=ordering.key(job), wish=self._of(job), plain=plain)
            self._waiting[job.id] = known
        return known

    def forget(self, job_id: str) -> None:
        self._waiting.pop(job_id, None)

    def of_gang(self, job: Job, size: int) -> Wish:
        """What such a job's gang asks for: room for all members at once."""
        return self._known((size, _shape(job)), job)

    def _of(self, job: Job) -> Wish:
        return self._known(_shape(job), job)

    def _known(self, shape: object, job: Job) -> Wish:
        if len(self._wishes) >= WISHES_MOST:
            self._wishes.clear()
        return self._wishes.setdefault(shape, Wish(request=job.spec.request))


def _shape(job: Job) -> object:
    """Jobs of one shape get the same answer from every node."""
    return (
        *(job.spec.request, job.spec.lab, job.spec.owner, job.avoid, job.image, job.image_barred),
        *(job.tier, job.dump and job.dump.kind),
    )
