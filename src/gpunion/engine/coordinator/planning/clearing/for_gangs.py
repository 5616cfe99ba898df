"""Gangs: on a campus full of jobs that run in windows, places for all members come free together.

Otherwise each place that comes free is taken by the next in line, and a gang would
wait until nobody else does.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpunion.domain.jobs.job import Job
from gpunion.domain.jobs.window import WindowEnd
from gpunion.engine.coordinator.capacity import views
from gpunion.engine.coordinator.draft import Draft
from gpunion.engine.coordinator.planning.clearing import quotas, turns, wide
from gpunion.engine.coordinator.runs import gang_members as gangs
from gpunion.engine.coordinator.windows import promises
from gpunion.policy.gangs.placing import room_for
from gpunion.policy.windows.policy import WindowPolicy
from gpunion.policy.windows.promises import PROMISES_MOST, Place, promise_all

# Of those who wait, so many are looked at in one pass: each asks every machine.
GANGS_AT_ONCE = 4


def keep_places(draft: Draft) -> None:
    policy = draft.policies.windows
    if policy is None or not policy.promises or not draft.state.in_windows:
        return
    waiting = map(draft.state.jobs.__getitem__, draft.state.waiting)
    leaders = [job for job in waiting if job.spec.seat is not None and _seeks(draft, job)]
    if not leaders:
        return
    given, books = promises.given(draft), quotas.books(draft)
    for job in sorted(leaders, key=lambda one: (turns.need(draft, one, policy), one.id))[:GANGS_AT_ONCE]:
        if given >= PROMISES_MOST:
            return
        if books.held_back(gangs.as_one(job)) is None and _keep_places(draft, job, policy):
            given, books = given + 1, quotas.books(draft)


def _seeks(draft: Draft, job: Job) -> bool:
    """Of a gang its first member does, for all of them."""
    seat = job.spec.seat
    if seat is None or seat.rank != 0 or job.spec.request.gpus == 0 or not gangs.all_seek(draft, job):
        return False
    return all(one.promised is None and one.awaits is None for one in gangs.members(draft, job))


def _keep_places(draft: Draft, job: Job, policy: WindowPolicy) -> bool:
    members = gangs.members(draft, job)
    found = promise_all(
        len(members),
        job.spec.request.gpus,
        list(_places(draft, job, len(members), policy)),
        draft.now_s,
        least_stay_s=wide.least_stay_s(job),
    )
    if found is None or all(promises.is_free(draft, one) for one in found):
        return False  # where all is free already, what keeps it from beginning is nothing that goes away so
    for member, one in zip(members, found, strict=True):
        promises.take_back(draft, one)
        promises.give(draft, member, one)
        wide.end_windows(draft, one, WindowEnd.GANG)
    return True


def _places(draft: Draft, job: Job, size: int, policy: WindowPolicy) -> Iterator[tuple[Place, int]]:
    for here in views(draft):
        if wide.may_come(here.node, job):
            leaving = wide.leaving_s(draft, job, here.node.id, policy)
            emptied = wide.emptied_of(draft, here, leaving)
            most = room_for(job, emptied, draft.now_s, draft.policies.scoring, size)
            if most:
                yield wide.place_on(draft, job, here, leaving), most
