"""What a waiting job asks of a node, said once for all jobs that ask the same.

Wishes are shared: what was found out about one holds for every job that has it, and they are told apart by
identity, which costs nothing, where comparing them field by field would cost most of a planning pass.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from operator import attrgetter

from gpunion.domain.job import Job
from gpunion.domain.resources import Request
from gpunion.policy.ordering import Ordering, SortKey

_key_of, _wish_of = attrgetter("key"), attrgetter("wish")
# So few newcomers are put into their places one by one; more of them are sorted in.
FEW = 8
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


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """All who wait, and what they ask for: there are far fewer wishes than jobs."""

    jobs: tuple[Waiting, ...] = ()  # by their keys
    asked: frozenset[Wish] = frozenset()  # by those of them that are plain
    all_plain: bool = True
    gangs: bool = False  # members of gangs are among them


@dataclass(slots=True)
class Wishes:
    _wishes: dict[object, Wish] = field(default_factory=dict)
    _waiting: dict[str, Waiting] = field(default_factory=dict)
    _line: Line = field(default_factory=Line)
    _news: dict[str, Job | None] = field(default_factory=dict)  # what the line does not show yet

    def begins_to_wait(self, job: Job) -> None:
        """Or waits on, with another record."""
        self._news[job.id] = job

    def waits_no_more(self, job_id: str) -> None:
        if job_id in self._waiting or job_id in self._news:
            self._news[job_id] = None

    def line(self, ordering: Ordering) -> Line:
        """Everybody who waits, in the order of the keys: worked out anew for those whose record changed."""
        if self._news:
            news = {id: job for id, job in self._news.items() if not self._is_known(id, job)}
            stay = [one for one in self._line.jobs if one.job.id not in news]
            come = [self._described(ordering, job) for job in news.values() if job is not None]
            if len(come) > FEW:
                stay = sorted((*stay, *come), key=_key_of)
            else:
                for one in come:
                    insort(stay, one, key=_key_of)
            if news:
                self._line = _lined_up(stay)
            for job_id in news:
                self._waiting.pop(job_id, None)
            self._waiting.update((one.job.id, one) for one in come)
            self._news.clear()
        return self._line

    def waiting(self, ordering: Ordering, job: Job) -> Waiting:
        known = self._waiting.get(job.id)
        return known if known is not None and known.job is job else self._described(ordering, job)

    def _is_known(self, job_id: str, job: Job | None) -> bool:
        known = self._waiting.get(job_id)
        return (None if known is None else known.job) is job

    def _described(self, ordering: Ordering, job: Job) -> Waiting:
        plain = not job.avoid and job.migration is None and job.dump is None
        return Waiting(job=job, key=ordering.key(job), wish=self._of(job), plain=plain)

    def of_gang(self, job: Job, size: int) -> Wish:
        """What such a job's gang asks for: room for all members at once."""
        return self._known((size, _shape(job)), job)

    def _of(self, job: Job) -> Wish:
        return self._known(_shape(job), job)

    def _known(self, shape: object, job: Job) -> Wish:
        if len(self._wishes) >= WISHES_MOST:
            self._wishes.clear()
        return self._wishes.setdefault(shape, Wish(request=job.spec.request))


def _lined_up(jobs: list[Waiting]) -> Line:
    plain = [one for one in jobs if one.plain]
    asked = frozenset(map(_wish_of, plain))
    gangs = any(one.job.spec.seat is not None for one in jobs)
    return Line(jobs=tuple(jobs), asked=asked, all_plain=len(plain) == len(jobs), gangs=gangs)


def _shape(job: Job) -> object:
    """Jobs of one shape get the same answer from every node."""
    return (
        *(job.spec.request, job.spec.lab, job.spec.owner, job.avoid, job.image, job.image_barred),
        *(job.tier, job.dump and (job.dump.kind, job.dump.gpu), job.spec.places),
    )
