"""Who is next among the waiting?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from heapq import heapify, heappop, heappush
from typing import Protocol

from gpunion.domain.jobs.job import Job, JobPhase
from gpunion.domain.ties import tie_break
from gpunion.policy.deadline import is_late
from gpunion.policy.fairness import Shares

SortKey = tuple[int, int, float, int]
# Less goes first: a priority class, then who was interrupted, who must not wait longer, and all the others.
Lane = tuple[int, int]
INTERRUPTED, URGENT, USUAL = 0, 1, 2
# After a day's wait it is first come, first served, whoever has used how much.
PATIENCE_S = 86_400.0


class Ordering(Protocol):
    fair: bool  # whether shares decide among the usual; where they do not, all are in one usual lane
    strict: bool  # whether nobody passes the first who finds no place; who was interrupted does in any case

    def key(self, job: Job) -> SortKey:
        """Smaller goes first within a lane. Depends on nothing but the job, so that it can be remembered."""
        ...

    def lane(self, job: Job, now_s: float) -> Lane: ...


class PriorityThenAge:
    """Priority classes; within one, work that was interrupted before work that never ran, then first come."""

    fair = False
    strict = False

    def key(self, job: Job) -> SortKey:
        interrupted = 0 if job.phase is JobPhase.MIGRATING else 1
        return (-int(job.spec.priority), interrupted, job.submitted_s, tie_break("ordering", job.id))

    def lane(self, job: Job, now_s: float) -> Lane:
        return (0, USUAL)


class FairShare(PriorityThenAge):
    """Priority classes; within one, the interrupted, who had a place and lost it; the late and those who
    waited for a day; then whoever has used least of what others lend."""

    fair = True

    def lane(self, job: Job, now_s: float) -> Lane:
        rank = -int(job.spec.priority)
        if job.phase is JobPhase.MIGRATING:
            return (rank, INTERRUPTED)
        if now_s - job.waiting_since_s > PATIENCE_S or is_late(job, now_s):
            return (rank, URGENT)
        return (rank, USUAL)


class EarliestDeadline(PriorityThenAge):
    """Priority classes; within one, the interrupted, then who has to begin soonest to be done in time, and
    then who named no deadline, first come first served."""

    def key(self, job: Job) -> SortKey:
        rank, interrupted, _, tie = super().key(job)
        return (rank, interrupted, _latest_start_s(job), tie)


# Moments are counted since 1970, so nobody without a deadline comes before somebody with one.
NO_DEADLINE_S = 1e12


def _latest_start_s(job: Job) -> float:
    """Of a job on the reference card."""
    within_s = job.spec.finish_within_s
    if within_s is None:
        return NO_DEADLINE_S + job.submitted_s
    return job.submitted_s + within_s - (job.spec.expected_s or 0.0)


class Ahead(StrEnum):
    """Why one job goes before another, in words that follow a number."""

    HIGHER_CLASS = "of a higher priority"
    INTERRUPTED = "that had a place and lost it"
    URGENT = "that may not wait any longer"
    USED_LESS = "of who has used less lately"
    EARLIER_DEADLINE = "that have to be done earlier"
    EARLIER = "handed in before it"


def why_ahead(first: Job, job: Job, ordering: Ordering, shares: Shares) -> Ahead:
    """Of two that wait, where `first` has its turn before `job`."""
    lane, before = ordering.lane(job, shares.now_s), ordering.lane(first, shares.now_s)
    if before[0] < lane[0]:
        return Ahead.HIGHER_CLASS
    if before[1] < lane[1]:
        return Ahead.INTERRUPTED if before[1] == INTERRUPTED else Ahead.URGENT
    if isinstance(ordering, EarliestDeadline):
        return Ahead.EARLIER_DEADLINE if _latest_start_s(first) < NO_DEADLINE_S else Ahead.EARLIER
    of_first = shares.standing(first.spec.lab, first.spec.owner)
    if lane[1] == USUAL and of_first < shares.standing(job.spec.lab, job.spec.owner):
        return Ahead.USED_LESS
    return Ahead.EARLIER


class Queue:
    """The waiting in the order of their turns. Tell it who was `served`: their account moves back."""

    def __init__(self, ordered: Iterable[Job], ordering: Ordering, shares: Shares) -> None:
        """`ordered`: by `ordering.key`."""
        self._fair, self._strict = ordering.fair, ordering.strict
        self._shares = shares
        self._served = False
        self._lanes: dict[Lane, list[Job]] = {}
        if ordering.fair:
            for job in ordered:
                self._lanes.setdefault(ordering.lane(job, shares.now_s), []).append(job)
        else:
            self._lanes[0, USUAL] = list(ordered)

    def __iter__(self) -> Iterator[Job]:
        for lane in sorted(self._lanes):
            jobs = self._lanes[lane]
            for job in self._in_turn(jobs) if self._fair and lane[1] == USUAL else jobs:
                self._served = False
                yield job
                if self._strict and not self._served and job.phase is not JobPhase.MIGRATING:
                    return

    def served(self) -> None:
        """The job handed out last got a place."""
        self._served = True

    def _in_turn(self, jobs: list[Job]) -> Iterator[Job]:
        """The account with the least share, until one of its jobs is served and another has the least."""
        accounts: dict[tuple[str, str], list[Job]] = {}
        for job in jobs:
            accounts.setdefault((job.spec.lab, job.spec.owner), []).append(job)
        # Of equal shares, whoever came first: the numbers follow the order of the jobs.
        turns = [(self._shares.standing(*who), number, who, 0) for number, who in enumerate(accounts)]
        heapify(turns)
        while turns:
            known, number, who, first = heappop(turns)
            now = self._shares.standing(*who)
            if now > known:  # another user of its lab was served meanwhile
                heappush(turns, (now, number, who, first))
                continue
            for position in range(first, len(accounts[who])):
                yield accounts[who][position]
                if self._served:
                    heappush(turns, (self._shares.standing(*who), number, who, position + 1))
                    break
